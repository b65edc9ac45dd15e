//! File systems of a test's own. Only a privileged user may mount them, and what makes one has to
//! be installed: elsewhere a test says what is missing and does nothing.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A mounted file system, which goes when the value is dropped.
pub(super) struct Mounted {
    at: PathBuf,
    /// Holds what is mounted and where.
    _directory: TempDir,
}

impl Mounted {
    /// A file system of so many MiB: `tmpfs`, or one for which there is a `mkfs`, in a file.
    pub(super) fn new(kind: &str, mib: u64) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("mounted");
        std::fs::create_dir(&at).unwrap();
        let mut mount = Command::new("mount");
        if kind == "tmpfs" {
            mount.args(["-t", kind, "-o", &format!("size={mib}m"), kind]);
        } else {
            let image = directory.path().join("image");
            File::create_new(&image).unwrap().set_len(mib << 20).unwrap();
            if !run(Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image)) {
                return None;
            }
            mount.args(["-t", kind, "-o", "loop"]).arg(image);
        }
        run(mount.arg(&at)).then_some(Self { at, _directory: directory })
    }

    pub(super) fn path(&self) -> &Path {
        &self.at
    }

    pub(super) fn free_mib(&self) -> u64 {
        let output = Command::new("df").args(["-k", "--output=avail"]).arg(&self.at).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        text.lines().last().unwrap().trim().parse::<u64>().unwrap() >> 10
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.at).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            let _ = Command::new("umount").arg("-l").arg(&self.at).status();
        }
    }
}

/// Whether the command worked; says why not.
fn run(command: &mut Command) -> bool {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => {
            println!("skipped: {program}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Err(error) => println!("skipped: {program} can't be run: {error}"),
    }
    false
}
