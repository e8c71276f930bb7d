#!/usr/bin/env python3
"""Writes a tar archive of small files: always the same one for the same count.

usage: generate.py COUNT ARCHIVE
Folders of 500 files of 0 to 8 KiB, whose bytes cannot be compressed.
"""
import io
import random
import sys
import tarfile

FOLDER, LARGEST, POOL, TIME = 500, 8 << 10, 1 << 20, 1_700_000_000
count, archive = int(sys.argv[1]), sys.argv[2]
chance = random.Random(1)
data = chance.randbytes(POOL)
with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
    for n in range(count):
        folder = f"tree/d{n // FOLDER:04}"
        if n % FOLDER == 0:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, TIME
            tar.addfile(entry)
        size, start = chance.randrange(LARGEST + 1), chance.randrange(POOL - LARGEST)
        entry = tarfile.TarInfo(f"{folder}/file{n:06}.dat")
        entry.size, entry.mode, entry.mtime = size, 0o644, TIME + n
        tar.addfile(entry, io.BytesIO(data[start : start + size]))
