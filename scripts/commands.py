#!/usr/bin/env python3
"""Random command lines of zpool and zfs, right and wrong, and how two runs of them differ.

    commands.py make SEED COUNT            one command line a line
    commands.py compare LINES THEIRS OURS  what differs, then counts; the exit code says whether anything does

THEIRS and OURS are folders that `scripts/judge-commands` fills: N.rc, N.out and N.err of line N, and after every
tenth line N.state, what there is by then.
"""

import pathlib
import random
import re
import shlex
import sys

DISKS = "/tmp/judge-commands/disk"
FILESYSTEMS = ["tank", "tank/a", "tank/b", "tank/a/c", "tank/a/c/d", "tank/b/e", "tank/x", "tank/clone"]
VOLUMES = ["tank/vol", "tank/a/vol", "tank/v2"]
WRONG = ["tonk", "tank/", "/tank", "tank/a b", "tank//a", "tank/a@", "tank/%", "tank/" + "n" * 260, "",
         "tank/a@s1", "tank/a#m", "tank/nope"]
VALUES = {
    "compression": ["on", "off", "lz4", "zstd-3", "zstd-99", "gzip-9", "gzip-10", "zle", "zstd-fast-10", "bogus",
                    "", "ON"],
    "recordsize": ["4k", "128K", "1M", "16M", "32M", "512", "100", "3000", "0", "none", "-1"],
    "atime": ["on", "off", "yes"], "relatime": ["on", "off"], "readonly": ["on", "off"],
    "quota": ["none", "0", "10M", "1G", "5T", "-5", "10X", "1.5G", "abc", "100"],
    "refquota": ["none", "10M", "50M", "junk"], "reservation": ["none", "1M", "10M", "100T", "x"],
    "refreservation": ["none", "1M", "auto", "10M"],
    "checksum": ["on", "off", "fletcher4", "sha256", "sha512", "skein", "blake3", "noparity", "md5"],
    "copies": ["1", "2", "3", "4", "0"], "canmount": ["on", "off", "noauto", "maybe"],
    "mountpoint": ["none", "legacy", "relative"], "primarycache": ["all", "none", "metadata", "data"],
    "logbias": ["latency", "throughput", "x"], "sync": ["standard", "always", "disabled", "no"],
    "xattr": ["sa", "on", "off", "dir"], "acltype": ["posix", "off", "nfsv4", "posixacl"],
    "aclinherit": ["discard", "restricted", "passthrough"], "dnodesize": ["legacy", "auto", "1k", "16k", "3k"],
    "exec": ["on", "off"], "setuid": ["on", "off"], "snapdir": ["hidden", "visible", "disabled", "x"],
    "redundant_metadata": ["all", "most", "some", "none"], "volsize": ["10M", "20M", "0", "1", "12345"],
    "volmode": ["dev", "none", "x"], "special_small_blocks": ["0", "4k", "128k", "3k", "2M"],
    "utf8only": ["on"], "normalization": ["formD"], "casesensitivity": ["mixed"], "version": ["5", "4", "9"],
    "filesystem_limit": ["none", "5", "0", "x"], "snapshot_limit": ["none", "3", "0"], "overlay": ["on", "off"],
    "org.x:y": ["1", "hello world", "", "v" * 30], "bad:": ["1"], ":x": ["y"], "nosuch": ["1"], "used": ["1"],
    "creation": ["1"], "type": ["x"], "userquota@1000": ["10M", "none"], "groupquota@root": ["1G"],
}
READ = list(VALUES) + ["all", "available", "referenced", "origin", "clones", "written", "written@s1", "name",
                       "userrefs", "defer_destroy", "space", ""]
COLUMNS = ["name", "type", "origin", "compression", "quota", "clones", "bogus", "name,type", "org.x:y", "userrefs",
           "recordsize", "volsize", "refreservation", "readonly"]
POOL_VALUES = {
    "comment": ["hello", "", "x" * 40], "failmode": ["wait", "continue", "panic", "x"],
    "autotrim": ["on", "off", "x"], "autoexpand": ["on", "off"], "listsnapshots": ["on", "off"],
    "ashift": ["9", "12", "20", "x"], "version": ["5000", "28", "x"], "size": ["1"], "bogus": ["1"],
    "feature@async_destroy": ["enabled", "disabled", "x"], "feature@bogus": ["enabled"], "org.u:p": ["1", ""],
}
POOL_READ = list(POOL_VALUES) + ["health", "guid", "readonly", "altroot", "bootfs", "dedupratio", "all"]
# Options and words that are wrong or missing.
ODD_ZFS = ["frob", "", "create", "destroy", "snapshot", "get", "list -Z", "set compression=on", "set tank/a",
           "clone tank/a@s1", "rename tank/a", "rollback", "inherit compression", "hold x", "promote",
           "destroy -x tank/a", "bookmark", "create -V tank/v9", "snapshot -r", "-?", "upgrade", "upgrade -v"]
ODD_ZPOOL = ["frob", "", "create", "create t2", "add tank", "destroy", "get", "list -Z", "set x", "status tonk",
             "offline tank", "attach tank", "scrub", "import -x", "upgrade -x", "-?", "iostat tonk", "export",
             "history tonk", "online", "clear", "replace tank", "labelclear", "reguid"]


class Maker:
    """Makes command lines by chance, more often such as can succeed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.one = self.random.choice

    def chance(self, share):
        return self.random.random() < share

    def some(self, *options):
        return [o for o in options if self.chance(0.3)]

    def often(self, words, others, share=0.6):
        return list(words) if self.chance(share) else list(self.one(others))

    def filesystem(self):
        return self.one(WRONG) if self.chance(0.12) else self.one(FILESYSTEMS)

    def head(self):
        return self.one(VOLUMES) if self.chance(0.2) else self.filesystem()

    def snapshot(self):
        return self.head() + "@" + self.one(["s1"] * 6 + ["s2"] * 6 + ["s3"] * 3 + ["", "a/b", "s@1", "s%1"])

    def setting(self, values=None):
        values = values or VALUES
        name = self.one(list(values))
        return f"{name}={self.one(values[name])}"

    def listed(self, names, most):
        return ",".join(self.one(names) for _ in range(self.random.randint(1, most)))

    def disk(self):
        return DISKS + str(self.random.randrange(8))

    def pool(self):
        return self.one(["tank"] * 8 + ["t2"] * 5 + ["tonk"] * 2 + ["tank/a", ""])

    def zfs(self):
        kinds = {
            "create": 10, "volume": 4, "destroy": 8, "snapshot": 10, "rename": 6, "clone": 6, "promote": 4,
            "rollback": 4, "set": 16, "inherit": 6, "get": 14, "list": 12, "hold": 4, "release": 3, "holds": 3,
            "bookmark": 4, "odd": 5,
        }
        kind = self.random.choices(list(kinds), kinds.values())[0]
        if kind == "create":
            more = ["-o", self.setting()] if self.chance(0.4) else []
            return ["create", *self.some("-p", "-u"), *more, self.filesystem()]
        if kind == "volume":
            block = ["-b", self.one(["8k", "16k", "3k", "1M", "512"])] if self.chance(0.4) else []
            size = self.one(["10M", "12M", "1000", "0", "16M", "x", "20T", "-1"])
            return ["create", *self.some("-s", "-p"), *block, "-V", size, self.one(VOLUMES)]
        if kind == "destroy":
            what = self.often([self.snapshot()], [
                [self.filesystem()], [self.one(VOLUMES)], [self.head() + "@s1%s2"], [self.head() + "@%"],
                [self.head() + "@s1,s2"], [self.head() + "#m"]], 0.4)
            return ["destroy", *self.often([], [["-r"], ["-R"], ["-nv"], ["-nvp"], ["-d"]]), *what]
        if kind == "snapshot":
            more = ["-o", self.setting()] if self.chance(0.15) else []
            return [self.one(["snapshot", "snap"]), *self.some("-r"), *more,
                    *(self.snapshot() for _ in range(self.one([1, 1, 1, 2])))]
        if kind == "rename":
            pair = self.one([
                [self.filesystem(), self.filesystem()], [self.snapshot(), self.snapshot()],
                [self.snapshot(), "@s2"], [self.snapshot(), "s3"], [self.one(VOLUMES), self.one(VOLUMES)]])
            return ["rename", *self.some("-p", "-r", "-u"), *pair]
        if kind == "clone":
            more = ["-o", self.setting()] if self.chance(0.25) else []
            return ["clone", *self.some("-p"), *more, self.snapshot(), self.filesystem()]
        if kind == "promote":
            return ["promote", self.one(["tank/clone", "tank/x", self.filesystem()])]
        if kind == "rollback":
            return ["rollback", *self.often([], [["-r"], ["-R"]], 0.5), self.snapshot()]
        if kind == "set":
            settings = [self.setting() for _ in range(self.one([1, 1, 1, 2]))]
            return ["set", *settings, self.snapshot() if self.chance(0.1) else self.head()]
        if kind == "inherit":
            return ["inherit", *self.some("-r", "-S")[:1], self.one(READ), self.head()]
        if kind == "get":
            sources = ["local", "default", "inherited,local", "received", "none", "bogus"]
            fields = ["name,value", "property,source", "all", "value", "bogus"]
            types = ["filesystem", "snapshot", "volume", "fs", "bookmark", "all", "bogus"]
            return ["get", *self.often(["-H"], [["-Hp"], ["-r"], ["-d", "1"], []]),
                    *self.often([], [["-s", self.one(sources)]]), *self.often([], [["-o", self.one(fields)]]),
                    *self.often([], [["-t", self.one(types)]]), self.listed(READ, 3),
                    *self.often([self.head()], [[self.snapshot()], []])]
        if kind == "list":
            types = ["all", "snapshot", "filesystem", "volume", "snap,fs", "bookmark", "bogus"]
            return ["list", *self.often(["-H"], [["-Hp"], []]),
                    *self.often([], [["-r"], ["-d", self.one(["0", "1", "x"])]]),
                    *self.often(["-o", self.listed(COLUMNS, 3)], [["-o", "name"]]),
                    *self.often([], [["-t", self.one(types)]]),
                    *self.often([], [[self.one(["-s", "-S"]), self.one(["name", "creation", "bogus", "quota"])]]),
                    *self.often([self.head()], [[self.snapshot()], []])]
        if kind in ("hold", "release"):
            return [kind, *self.some("-r"), self.one(["keep", "k2", "no"]), self.snapshot()]
        if kind == "holds":
            return ["holds", *self.some("-H", "-r"), self.snapshot()]
        if kind == "bookmark":
            return ["bookmark", self.one([self.snapshot(), self.head() + "#m"]),
                    self.one([self.head() + "#m", "#m2", self.head() + "@m", "tank/a#s/1"])]
        return self.one(ODD_ZFS).split()

    def zpool(self):
        kinds = {
            "list": 6, "get": 6, "set": 6, "status": 4, "scrub": 3, "offline": 2, "online": 2, "attach": 2,
            "detach": 2, "create": 5, "add": 2, "destroy": 2, "move": 2, "odd": 5, "clear": 1, "labelclear": 1,
            "replace": 1, "remove": 1, "sync": 1,
        }
        kind = self.random.choices(list(kinds), kinds.values())[0]
        disk = self.disk
        if kind == "list":
            return ["list", *self.often(["-H"], [["-Hp"], []]), "-o", "name," + self.listed(["health", "guid",
                    "readonly", "altroot", "bogus", "comment"], 2), *self.often([self.pool()], [[]])]
        if kind == "get":
            fields = ["name,value", "property,source", "all", "bogus"]
            return ["get", "-H", *self.often([], [["-o", self.one(fields)]]), self.listed(POOL_READ, 2), self.pool()]
        if kind == "set":
            return ["set", self.setting(POOL_VALUES), self.pool()]
        if kind == "status":
            return ["status", *self.often([], [["-x"], ["-v"], ["-P"], ["-q"]]), *self.often([self.pool()], [[]])]
        if kind == "scrub":
            return ["scrub", *self.often(["-w"], [["-s"], ["-p"], ["-x"]]), self.pool()]
        if kind in ("offline", "online", "detach"):
            return [kind, self.pool(), disk()]
        if kind in ("attach", "replace"):
            return [kind, "-w", self.pool(), disk(), disk()]
        if kind == "create":
            layout = self.one([
                [disk()], ["mirror", disk(), disk()], ["raidz", disk(), disk(), disk()], ["mirror", disk()],
                ["raidz2", disk(), disk()], [disk(), disk()], ["mirror", disk(), disk(), "log", disk()],
                [disk(), "spare", disk()], [], ["/no/such"]])
            more = self.often([], [["-o", self.setting(POOL_VALUES)], ["-O", self.setting()]])
            name = self.one(["t2"] * 5 + ["tank", "mirror", "9x", "a b", "t2/x"])
            return ["create", *self.often([], [["-f"], ["-n"]]), "-o", "ashift=9", *more, name, *layout]
        if kind == "add":
            layout = self.one([[disk()], ["mirror", disk(), disk()], ["log", disk()], ["spare", disk()],
                               ["cache", disk()], []])
            return ["add", *self.often(["-n"], [["-f"], []]), self.pool(), *layout]
        if kind == "destroy":
            return ["destroy", *self.some("-f"), self.one(["t2"] * 5 + ["tonk", ""])]
        if kind == "move":
            where = str(pathlib.Path(DISKS).parent)
            return self.one([["export", "t2"], ["import", "-d", where, "t2"], ["export", "tonk"],
                             ["import", "-d", where, "tonk"], ["import", "-d", where, "t2", "t3"]])
        if kind in ("clear", "sync"):
            return [kind, self.pool()]
        if kind == "labelclear":
            return ["labelclear", *self.some("-f"), self.one([disk(), "/no/such"])]
        if kind == "remove":
            return ["remove", self.one(["t2", "tonk"]), disk()]
        return self.one(ODD_ZPOOL).split()

    def line(self):
        command, words = ("zpool", self.zpool()) if self.chance(0.3) else ("zfs", self.zfs())
        return shlex.join([command, *words])


def plain(text):
    """Without what two runs cannot have in common: numbers by chance, times."""
    text = re.sub(r"\b\d{15,20}\b", "GUID", text)
    text = re.sub(r"\b1[78]\d{8}\b", "TIME", text)
    text = re.sub(r"\w{3} \w{3} +\d+ +\d+:\d+(:\d+)? +20\d\d", "DATE", text)
    # How much a resilver or scrub wrote, and how long it took, depends on what else was written by then.
    text = re.sub(r"(resilvered|repaired) [\d.]+[BKM]? in [\d:]+", r"\1 SIZE in TIME", text)
    return re.sub(r"^zinc: ", "", text)


def first(text):
    return plain(text).split("\n")[0].strip()


def compare(lines, theirs, ours):
    counts = {"exit": 0, "output": 0, "silence": 0, "words": 0, "state": 0}
    read = lambda folder, n, end: (folder / f"{n}.{end}").read_text(errors="replace")
    for n, line in enumerate(lines):
        (rc, out, err), (our_rc, our_out, our_err) = (
            [read(folder, n, end) for end in ("rc", "out", "err")] for folder in (theirs, ours))
        kinds = []
        # OpenZFS ends with 22, 255 and others too: that it fails is what scripts see.
        if (int(rc) == 0) != (int(our_rc) == 0):
            kinds.append("exit")
        if plain(out) != plain(our_out):
            kinds.append("output")
        if bool(err.strip()) != bool(our_err.strip()):
            kinds.append("silence")
        elif first(err) != first(our_err):
            kinds.append("words")
        for kind in kinds:
            counts[kind] += 1
        if kinds:
            print(f"### {n} {'+'.join(kinds)}: {line}")
            print(f"  OpenZFS {int(rc)} {out[:300]!r} {err[:200]!r}")
            print(f"  zinc    {int(our_rc)} {our_out[:300]!r} {our_err[:200]!r}")
        if (theirs / f"{n + 1}.state").exists():
            there, here = (set(plain(read(folder, n + 1, "state")).split("\n")) for folder in (theirs, ours))
            if there != here:
                counts["state"] += 1
                print(f"=== after {n}: OpenZFS alone {sorted(there - here)}, zinc alone {sorted(here - there)}")
    print(f"{len(lines)} lines: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return any(counts[kind] for kind in ("exit", "output", "state"))


def main(words):
    match words:
        case ["make", seed, count]:
            maker = Maker(int(seed))
            print("\n".join(maker.line() for _ in range(int(count))))
        case ["compare", lines, theirs, ours]:
            lines = pathlib.Path(lines).read_text().splitlines()
            sys.exit(compare(lines, pathlib.Path(theirs), pathlib.Path(ours)))
        case _:
            sys.exit(__doc__)


main(sys.argv[1:])
