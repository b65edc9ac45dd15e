//! What the doctor looks at: statistics of the engine and of the operating system, as plain data.

use std::fs;
use std::path::Path;

use tidesdb::{Db, DbStats, FamilyOptions, FamilySpace, FamilyStats, StallReason, StallStats};

use super::Viewer;
use super::event_log::EventLog;
use super::formats::Formats;
use super::system::{self, Volume};
use crate::database;

/// The folder for files that belong to nothing the database knows of.
const SET_ASIDE: &str = "set-aside";

/// All that is known of a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Whose counters these are.
    pub(crate) viewer: Viewer,
    /// What the file `LOG` tells a visitor, if there is one.
    pub(crate) event_log: Option<EventLog>,
    /// Statistics of the database, its counters since the open.
    pub(crate) database: DbStats,
    /// What held writers up since the open.
    pub(crate) stalls: Vec<Stall>,
    /// The families, in order.
    pub(crate) families: Vec<FamilyFacts>,
    /// Files that are missing, or not as long as they must be.
    pub(crate) damaged_files: Vec<String>,
    /// What lies in the directory.
    pub(crate) files: Files,
    /// Where the directory lies.
    pub(crate) volume: Volume,
    /// Descriptors that this process has open, and may have.
    pub(crate) descriptors: Option<(u64, u64)>,
    /// Memory of this process that is resident.
    pub(crate) resident_bytes: Option<u64>,
    /// How many files there are of each format.
    pub(crate) formats: Formats,
}

/// What held writers up for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    pub(crate) reason: StallReason,
    pub(crate) count: u64,
    pub(crate) nanos: u64,
    pub(crate) longest_nanos: u64,
}

impl From<&StallStats> for Stall {
    fn from(stall: &StallStats) -> Self {
        let &StallStats { reason, count, nanos, longest_nanos, .. } = stall;
        Self { reason, count, nanos, longest_nanos }
    }
}

/// A family.
#[derive(Clone, Debug, Default)]
pub(crate) struct FamilyFacts {
    pub(crate) name: String,
    pub(crate) options: FamilyOptions,
    pub(crate) stats: FamilyStats,
    pub(crate) space: FamilySpace,
}

/// Bytes that the files of a directory take on the disk, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) tables: u64,
    pub(crate) value_logs: u64,
    pub(crate) log: u64,
    pub(crate) manifest: u64,
    /// Files of none of these kinds.
    pub(crate) others: u64,
    pub(crate) set_aside: u64,
    pub(crate) set_aside_files: u64,
}

impl Files {
    /// All of them.
    pub(crate) const fn bytes(&self) -> u64 {
        self.tables + self.value_logs + self.log + self.manifest + self.others + self.set_aside
    }

    /// Looks at a directory. Files that vanish meanwhile do not count.
    fn of(directory: &Path) -> Self {
        let mut files = Self::default();
        for (name, bytes) in system::files(directory) {
            let place = match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
                "klog" => &mut files.tables,
                "vlog" => &mut files.value_logs,
                "log" if name.starts_with("wal-") => &mut files.log,
                _ if name.starts_with("MANIFEST-") || name == "CURRENT" => &mut files.manifest,
                _ => &mut files.others,
            };
            *place += bytes;
        }
        for (_, bytes) in system::files(&directory.join(SET_ASIDE)) {
            files.set_aside += bytes;
            files.set_aside_files += 1;
        }
        files
    }
}

impl Facts {
    /// What is known of an open database.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn of(db: &Db, viewer: Viewer) -> tidesdb::Result<Self> {
        let families = database::visible_families(db).into_iter().map(|name| {
            let family = db.family(&name)?;
            let (options, stats) = (family.options(), family.stats());
            Ok(FamilyFacts { name, options, stats, space: family.space() })
        });
        let directory = fs::canonicalize(db.path()).unwrap_or_else(|_| db.path().to_owned());
        let names = system::files(&directory).into_iter().map(|(name, _)| name);
        let database = db.stats();
        let event_log = match viewer {
            Viewer::User => None,
            Viewer::Visitor => EventLog::of(&directory),
        };
        Ok(Self {
            viewer,
            event_log,
            stalls: database.stalls.iter().map(Stall::from).collect(),
            database,
            families: families.collect::<tidesdb::Result<_>>()?,
            damaged_files: db.check_files()?.iter().map(ToString::to_string).collect(),
            files: Files::of(&directory),
            volume: Volume::of(&directory),
            descriptors: system::descriptors(),
            resident_bytes: system::resident_bytes(),
            formats: Formats::of(&directory, names),
        })
    }
}
