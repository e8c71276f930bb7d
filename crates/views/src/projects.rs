//! Projects of files, one in a line, in the words of `zfs project`.

use engine::files::{ProjectOf, ProjectTask};

/// The lines for a file when a task is done; `name` is its name, below the one that was given. None
/// for a file that is as it should be, or is changed.
#[must_use]
pub fn lines(name: &str, of: &ProjectOf, task: ProjectTask) -> String {
    let ProjectOf { project, inherits, .. } = *of;
    match task {
        ProjectTask::List => {
            let flag = if inherits { 'P' } else { '-' };
            format!("{project:5} {flag} {name}\n")
        }
        ProjectTask::Check { project: wanted } => {
            let mut text = String::new();
            if let Some(wanted) = wanted.filter(|wanted| *wanted != project) {
                let what = "project ID is not set properly";
                text.push_str(&format!("{name} - {what} ({project}/{wanted})\n"));
            }
            if !inherits {
                text.push_str(&format!("{name} - project inherit flag is not set\n"));
            }
            text
        }
        ProjectTask::Clear { .. } | ProjectTask::Set { .. } => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_as_it_should_be_is_said() {
        let of = ProjectOf { below: Vec::new(), project: 7, inherits: false };
        assert_eq!(lines("a", &of, ProjectTask::List), "    7 - a\n");
        let check = |project| lines("a", &of, ProjectTask::Check { project: Some(project) });
        assert_eq!(check(7), "a - project inherit flag is not set\n");
        assert!(check(8).starts_with("a - project ID is not set properly (7/8)\n"));
        let set = ProjectTask::Set { project: Some(7), inherits: true };
        assert_eq!(lines("a", &of, set), "");
    }
}
