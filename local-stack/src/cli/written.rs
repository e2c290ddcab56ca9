//! `pagemark completions` and `pagemark man`: files that are written from the commands themselves.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pagemark completions bash > /usr/local/share/bash-completion/completions/pagemark
  pagemark completions fish > ~/.config/fish/completions/pagemark.fish")]
pub(super) struct CompletionsArgs {
    shell: Shell,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  pagemark man /usr/local/share/man/man1")]
pub(super) struct ManArgs {
    /// The folder for the pages. It is made if it is not there.
    folder: PathBuf,
}

pub(super) fn completions(args: &CompletionsArgs) {
    let mut command = Cli::command();
    clap_complete::generate(args.shell, &mut command, "pagemark", &mut io::stdout());
}

/// Writes a page for the program and for each of its commands.
pub(super) fn man(args: &ManArgs) -> anyhow::Result<()> {
    write_man(&args.folder).with_context(|| format!("{} cannot be written", args.folder.display()))
}

fn write_man(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn every_command_has_a_man_page() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("man1");
        write_man(&folder).unwrap();
        for page in ["pagemark", "pagemark-up", "pagemark-repair-audit"] {
            let text = fs::read_to_string(folder.join(format!("{page}.1"))).unwrap();
            assert!(text.contains(".SH SYNOPSIS"), "{text}");
        }
    }

    #[test]
    fn bash_takes_the_completions() {
        let mut script = Vec::new();
        clap_complete::generate(Shell::Bash, &mut Cli::command(), "pagemark", &mut script);
        let script = String::from_utf8(script).unwrap();
        let asked = format!(
            "{script}\nCOMP_WORDS=(pagemark up --data) COMP_CWORD=2; _pagemark pagemark --data up; echo ${{COMPREPLY[@]}}"
        );
        let answer = Command::new("bash").args(["-c", &asked]).output().unwrap();
        let offered = String::from_utf8(answer.stdout).unwrap();
        assert_eq!(offered.trim(), "--data-dir");
    }
}
