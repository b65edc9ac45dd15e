//! Names of the files in a database directory.
//!
//! A name carries a kind and a number and nothing else: which level a table belongs to, and
//! whether a file is alive at all, is known to the manifest alone. Numbers are written with at
//! least six digits so that listings sort well, and are used once in the life of a database, also
//! across kinds.
//!
//! [`parse`] accepts exactly the names that [`FileKind::name`] produces, so a file that another
//! program put there is never taken for one of ours.

/// What a file in a database directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A sorted table of that number: `000007.klog`.
    Table(u64),
    /// A value log of that number: `000008.vlog`.
    ValueLog(u64),
    /// A segment of the write-ahead log: `wal-000009.log`.
    LogSegment(u64),
    /// A manifest: `MANIFEST-000010`.
    Manifest(u64),
    /// The file naming the manifest in force: `CURRENT`.
    Current,
    /// The mark of a clean close: `CLOSED`.
    Closed,
    /// The file whose lock owns the directory: `LOCK`.
    Lock,
    /// The log of events, for people: `LOG`.
    EventLog,
}

impl FileKind {
    /// The file's name inside the directory.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Table(number) => format!("{number:06}.klog"),
            Self::ValueLog(number) => format!("{number:06}.vlog"),
            Self::LogSegment(number) => format!("wal-{number:06}.log"),
            Self::Manifest(number) => format!("MANIFEST-{number:06}"),
            Self::Current => "CURRENT".to_owned(),
            Self::Closed => "CLOSED".to_owned(),
            Self::Lock => "LOCK".to_owned(),
            Self::EventLog => "LOG".to_owned(),
        }
    }

    /// The number in the name, for the kinds that have one.
    #[must_use]
    pub const fn number(self) -> Option<u64> {
        match self {
            Self::Table(number)
            | Self::ValueLog(number)
            | Self::LogSegment(number)
            | Self::Manifest(number) => Some(number),
            Self::Current | Self::Closed | Self::Lock | Self::EventLog => None,
        }
    }
}

/// The kind of the file called `name`, or `None` when no kind has exactly this name.
#[must_use]
pub fn parse(name: &str) -> Option<FileKind> {
    let kind = match name {
        "CURRENT" => FileKind::Current,
        "CLOSED" => FileKind::Closed,
        "LOCK" => FileKind::Lock,
        "LOG" => FileKind::EventLog,
        _ => {
            if let Some(digits) = name.strip_suffix(".klog") {
                FileKind::Table(digits.parse().ok()?)
            } else if let Some(digits) = name.strip_suffix(".vlog") {
                FileKind::ValueLog(digits.parse().ok()?)
            } else if let Some(digits) = name.strip_prefix("MANIFEST-") {
                FileKind::Manifest(digits.parse().ok()?)
            } else {
                let digits = name.strip_prefix("wal-")?.strip_suffix(".log")?;
                FileKind::LogSegment(digits.parse().ok()?)
            }
        }
    };
    // Integer parsing takes "+7" and "0000007" too; a name must come back the way it went in.
    (kind.name() == name).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_round_trips() {
        for number in [0, 7, 999_999, 1_000_000, u64::MAX] {
            for kind in [
                FileKind::Table(number),
                FileKind::ValueLog(number),
                FileKind::LogSegment(number),
                FileKind::Manifest(number),
            ] {
                assert_eq!(parse(&kind.name()), Some(kind));
                assert_eq!(kind.number(), Some(number));
            }
        }
        for kind in [FileKind::Current, FileKind::Closed, FileKind::Lock, FileKind::EventLog] {
            assert_eq!(parse(&kind.name()), Some(kind));
            assert_eq!(kind.number(), None);
        }
        assert_eq!(FileKind::Table(7).name(), "000007.klog");
        assert_eq!(FileKind::LogSegment(7).name(), "wal-000007.log");
    }

    #[test]
    fn foreign_names_are_refused() {
        for name in [
            "",
            "7.klog",
            "+00007.klog",
            "0000007.klog",
            "000007.klog ",
            "000007.KLOG",
            "-1.vlog",
            "wal-7.log",
            "wal-000007",
            "MANIFEST-",
            "MANIFEST-00000x",
            "current",
            "000007.klog.tmp",
            "99999999999999999999.klog",
            "٠٠٠٠٠٧.klog",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }
}
