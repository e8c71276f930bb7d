//! What a shell offers while a command line is typed, beside verbs and options: names that there
//! are on this machine, and how the scripts of the shells ask for them.

use engine::props::{DATASET, POOL, PropertyDesc};
use serde_json::Value;

/// What a word may be the name of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A pool.
    Pools,
    /// A file system or volume.
    Datasets,
    /// A snapshot, of any dataset.
    Snapshots,
    /// A snapshot of this dataset.
    SnapshotsOf(String),
    /// A bookmark of this dataset.
    BookmarksOf(String),
    /// A vdev of this pool.
    VdevsOf(String),
    /// One of these, which are known.
    Words(Vec<String>),
}

impl Wanted {
    /// The command line of zinc that lists them, without its name; of [`Wanted::Words`] none.
    #[must_use]
    pub fn lists(&self) -> Vec<&str> {
        let of_type = |kind, more: &[&'static str]| {
            [&["zfs", "list", "-H", "-o", "name", "-t", kind][..], more].concat()
        };
        let one = ["--depth", "1"];
        match self {
            Self::Pools => vec!["zpool", "list", "-H", "-o", "name"],
            Self::Datasets => of_type("filesystem,volume", &[]),
            Self::Snapshots => of_type("snapshot", &[]),
            Self::SnapshotsOf(of) => [of_type("snapshot", &one), vec![of.as_str()]].concat(),
            Self::BookmarksOf(of) => [of_type("bookmark", &one), vec![of.as_str()]].concat(),
            Self::VdevsOf(pool) => {
                vec!["zpool", "status", "-j", "--json-flat-vdevs", pool.as_str()]
            }
            Self::Words(_) => Vec::new(),
        }
    }

    /// The names in the output of that command line.
    #[must_use]
    pub fn names(self, output: &str) -> Vec<String> {
        match self {
            Self::Words(words) => words,
            Self::VdevsOf(_) => vdevs(&serde_json::from_str(output).unwrap_or_default()),
            _ => output.lines().map(str::to_owned).collect(),
        }
    }
}

/// The names of all vdevs below the root in what `zpool status` prints as flat JSON.
fn vdevs(status: &Value) -> Vec<String> {
    let pools = status["pools"].as_object().into_iter().flat_map(|pools| pools.values());
    let sections = pools.flat_map(|pool| pool.as_object().into_iter().flatten());
    let vdevs = sections.filter_map(|(_, section)| section.as_object()).flatten();
    let is_vdev = |vdev: &Value| vdev["vdev_type"].as_str().is_some_and(|kind| kind != "root");
    vdevs.filter(|(_, vdev)| is_vdev(vdev)).map(|(name, _)| name.clone()).collect()
}

/// What `word` may name, behind a command of OpenZFS's, its verb, and these operands.
#[must_use]
pub fn wanted(command: &str, verb: &str, before: &[&str], word: &str) -> Vec<Wanted> {
    match (command, before.first()) {
        ("zpool", first) => of_zpool(verb, first.copied()),
        ("zfs", first) => of_zfs(verb, first.is_none(), word),
        ("zdb", None) => of_datasets(word, false),
        ("zinc", None) if verb == "mount" => of_datasets(word, false),
        ("zinc", None) if OF_POOLS.contains(&verb) => vec![Wanted::Pools],
        _ => Vec::new(),
    }
}

/// Verbs of zinc's own whose operand is a pool.
const OF_POOLS: [&str; 10] = [
    "advise",
    "check",
    "inventory",
    "repair",
    "rescue",
    "serve",
    "throttle",
    "top",
    "txgs",
    "unmount",
];

fn of_zpool(verb: &str, first: Option<&str>) -> Vec<Wanted> {
    match (verb, first) {
        ("create" | "import" | "labelclear" | "version", _) | ("add" | "split", Some(_)) => vec![],
        ("get", None) => vec![shown(&POOL)],
        ("set", None) => vec![settable(&POOL, "=")],
        (
            "attach" | "clear" | "detach" | "initialize" | "offline" | "online" | "remove"
            | "replace" | "trim",
            Some(pool),
        ) => vec![Wanted::VdevsOf(pool.to_owned())],
        _ => vec![Wanted::Pools],
    }
}

fn of_zfs(verb: &str, is_first: bool, word: &str) -> Vec<Wanted> {
    match verb {
        "version" => vec![],
        "get" if is_first => vec![shown(&DATASET)],
        "inherit" if is_first => vec![settable(&DATASET, "")],
        "hold" | "release" if is_first => vec![],
        "set" if word.contains('=') => vec![],
        "set" => vec![settable(&DATASET, "="), Wanted::Datasets],
        "bookmark" | "clone" | "diff" | "hold" | "holds" | "release" | "rollback" | "send" => {
            of_datasets(word, true)
        }
        _ => of_datasets(word, false),
    }
}

/// Datasets, and what belongs to the one whose name is there already.
fn of_datasets(word: &str, with_snapshots: bool) -> Vec<Wanted> {
    match word.split_once(['@', '#']) {
        Some((of, _)) if word.contains('#') => vec![Wanted::BookmarksOf(of.to_owned())],
        Some((of, _)) => vec![Wanted::SnapshotsOf(of.to_owned())],
        None if with_snapshots => vec![Wanted::Datasets, Wanted::Snapshots],
        None => vec![Wanted::Datasets],
    }
}

fn shown(table: &[PropertyDesc]) -> Wanted {
    let names = table.iter().filter(|p| p.is_visible());
    Wanted::Words(names.map(|p| p.name.to_owned()).collect())
}

/// Those that can be changed, with `end` behind their names.
fn settable(table: &[PropertyDesc], end: &str) -> Wanted {
    let names = table.iter().filter(|p| p.is_visible() && !p.is_fixed());
    Wanted::Words(names.map(|p| format!("{}{end}", p.name)).collect())
}

/// What is added to the script of a shell for the command `name`, so that it asks `zinc` for names;
/// nothing for a shell for which there is nothing.
#[must_use]
pub fn asking(shell: &str, name: &str, script: &str) -> String {
    match shell {
        "bash" => format!("{script}{}", BASH.replace("NAME", name)),
        "fish" => format!("{script}{}", FISH.replace("NAME", name)),
        "zsh" => {
            let asks = script.replace(":_default'", &format!(":_{name}_names'"));
            let (first, rest) = asks.split_once('\n').unwrap_or((&asks, ""));
            format!("{first}\n{}{rest}", ZSH.replace("NAME", name))
        }
        _ => script.to_owned(),
    }
}

/// Readline parts words at `@`, `=` and `:`, and replaces only the last part: names are asked for
/// with the whole word, and begin with what stands before that part.
const BASH: &str = r#"
_NAME_with_names() {
    local part="${COMP_WORDS[COMP_CWORD]}" line="${COMP_LINE:0:COMP_POINT}" word= reply kept=()
    [[ $line == *[[:space:]] ]] || word="${line##*[[:space:]]}"
    case $part in '@' | '=' | ':') part= ;; esac
    [[ $word == *"$part" ]] || part=$word
    _NAME "$@"
    for reply in "${COMPREPLY[@]}"; do
        # What an operand is called is no word for it; options are for those that begin one.
        [[ $reply == '['* || $reply == '<'* || $reply == -* && $word != -* ]] || kept+=("$reply")
    done
    if [[ $word != -* ]]; then
        local IFS=$'\n' before="${word%"$part"}" words=()
        IFS=$' \t\n' read -r -a words <<< "$line"
        [[ -n $word ]] || words+=("")
        for reply in $(zinc completions --names bash NAME -- "${words[@]:1}" 2> /dev/null); do
            [[ $reply == "$word"* ]] && kept+=("${reply#"$before"}")
        done
        [[ ${#kept[@]} == 1 && ${kept[0]} == *= ]] && compopt -o nospace 2> /dev/null
    fi
    COMPREPLY=("${kept[@]}")
}
complete -F _NAME_with_names -o bashdefault -o default NAME
"#;

/// Files are offered where no name is, by this and not by fish: it would offer them beside names.
const FISH: &str = r#"
function __NAME_names
    set -l words (commandline -opc)
    set -l names (zinc completions --names fish NAME -- $words[2..] (commandline -ct) 2> /dev/null)
    if set -q names[1]
        printf '%s\n' $names
    else
        __fish_complete_path (commandline -ct)
    end
end
# Behind a verb, unless an option is typed.
function __NAME_takes_names
    string match -q -- '-*' (commandline -ct); and return 1
    set -l words (commandline -opc)
    contains -- "$words[2]" zpool zfs zdb zstream; and set -e words[1]
    test $words[1] = zdb; or set -q words[2]
end
complete -c NAME -f -n __NAME_takes_names -a '(__NAME_names)'
"#;

/// Behind the `=` of a property its value follows, and no space.
const ZSH: &str = r#"
_NAME_names() {
    local -a typed names
    local ret=1
    typed=(${(z)LBUFFER})
    [[ $LBUFFER == *[[:space:]] ]] && typed+=("")
    names=(${(f)"$(zinc completions --names zsh NAME -- "${(@)typed[2,-1]}" 2> /dev/null)"})
    compadd -S '' - "${(@M)names:#*=}" && ret=0
    compadd - "${(@)names:#*=}" && ret=0
    (( ret )) && _default
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_offered_where_a_verb_takes_them() {
        let of = |line: &str, word: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            wanted(words[0], words[1], &words[2..], word)
        };
        assert_eq!(of("zpool status", ""), [Wanted::Pools]);
        assert_eq!(of("zpool create", ""), []);
        assert_eq!(of("zpool offline", ""), [Wanted::Pools]);
        assert_eq!(of("zpool offline tank", "a"), [Wanted::VdevsOf("tank".to_owned())]);
        assert_eq!(of("zfs destroy", "tank"), [Wanted::Datasets]);
        assert_eq!(of("zfs destroy", "tank/a@"), [Wanted::SnapshotsOf("tank/a".to_owned())]);
        assert_eq!(of("zfs destroy", "tank#x"), [Wanted::BookmarksOf("tank".to_owned())]);
        assert_eq!(of("zfs rollback", ""), [Wanted::Datasets, Wanted::Snapshots]);
        assert_eq!(of("zfs hold", ""), []);
        assert_eq!(of("zfs set", "atime=o"), []);
        assert_eq!(of("zinc check", ""), [Wanted::Pools]);
        assert_eq!(of("zinc lab", ""), []);
        let [Wanted::Words(names)] = &of("zfs get", "")[..] else { panic!("properties") };
        assert!(names.iter().any(|name| name == "recordsize"));
        let [Wanted::Words(names), Wanted::Datasets] = &of("zfs set", "re")[..] else {
            panic!("properties and datasets")
        };
        assert!(names.iter().any(|name| name == "recordsize="));
        assert!(!names.iter().any(|name| name == "referenced="), "it cannot be set");
    }
}
