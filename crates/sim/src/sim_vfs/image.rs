//! Crash images: what a disk may hold after the process dies or the power fails.
//!
//! An image is a new, independent disk on which everything is durable. Per file it starts from
//! the medium (power cut) or from the cache (process kill) and adds what the profile and the seed
//! choose; names likewise. Files without unsynced bytes are shared, not copied, so that an image
//! costs about as much as the dirty files are large in pages. Each file draws from its own
//! generator, so that a file's fate does not depend on how many other files there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::SECTOR_BYTES;
use super::content::{Content, Sector};
use super::disk::{Disk, Names, Node, NodeId, ROOT};
use super::file::FileState;
use super::writes::LastWrite;
use crate::rng::{SplitMix64, mix64};

/// Which unsynced state a crash keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CrashProfile {
    /// Power cut: everything unsynced is lost, names included.
    Nothing,
    /// Process kill: the cache survives whole.
    Everything,
    /// Power cut: a random subset of sectors, lengths and name changes reached the medium, some
    /// sectors in a version between the last sync and now.
    Random,
    /// Power cut while the last write was on its way: all earlier ones arrived, the last one is
    /// cut at a byte.
    Torn,
    /// Power cut: names and grown lengths arrived, but the grown part reads as zeros or as stale
    /// bytes from elsewhere on the disk.
    Tail,
    /// Power cut: all name changes arrived, no unsynced data and no unsynced length did.
    MetadataFirst,
}

impl CrashProfile {
    /// All profiles.
    pub const ALL: [Self; 6] = [
        Self::Nothing,
        Self::Everything,
        Self::Random,
        Self::Torn,
        Self::Tail,
        Self::MetadataFirst,
    ];
}

/// Odds, in eighths, that a random image keeps one sector or name change; one draw per image.
const KEEP_EIGHTHS: [u64; 3] = [1, 4, 7];

struct Image<'a> {
    disk: &'a Disk,
    profile: CrashProfile,
    seed: u64,
    /// Of eight, how many sectors or name changes a random image keeps.
    keep: u64,
    /// Files with durable content, the source of stale bytes.
    stale_sources: Vec<NodeId>,
}

/// Builds the disk that a crash of `disk` leaves.
pub(super) fn crash(disk: &Disk, profile: CrashProfile, seed: u64) -> Disk {
    let mut random = SplitMix64::new(seed);
    let keep = KEEP_EIGHTHS[random.index(KEEP_EIGHTHS.len())];
    let stale_sources =
        if profile == CrashProfile::Tail { written_files(disk) } else { Vec::new() };
    let image = Image { disk, profile, seed, keep, stale_sources };
    let nodes = image.nodes(&image.directories(&mut random));
    let mut crashed = Disk::restarted(nodes, disk.next_node, random.next_u64());
    crashed.capacity = disk.capacity;
    crashed
}

fn written_files(disk: &Disk) -> Vec<NodeId> {
    let written = |(id, node): (&NodeId, &Node)| match node {
        Node::File(file) if file.durable.len() > 0 => Some(*id),
        _ => None,
    };
    disk.nodes.iter().filter_map(written).collect()
}

impl Image<'_> {
    /// The names that survive, per directory.
    fn directories(&self, random: &mut SplitMix64) -> BTreeMap<NodeId, Arc<Names>> {
        let durable_only = matches!(self.profile, CrashProfile::Nothing | CrashProfile::Random);
        let names = |(id, node): (&NodeId, &Node)| match node {
            Node::Dir { durable, .. } if durable_only => Some((*id, Arc::clone(durable))),
            Node::Dir { volatile, .. } => Some((*id, Arc::clone(volatile))),
            Node::File(_) => None,
        };
        let mut directories: BTreeMap<_, _> = self.disk.nodes.iter().filter_map(names).collect();
        if self.profile == CrashProfile::Random {
            let kept = self.disk.pending.iter().filter(|_| random.chance(self.keep, 8));
            for change in kept {
                for dir in change.directories() {
                    if let Some(names) = directories.get_mut(&dir) {
                        change.apply(dir, Arc::make_mut(names));
                    }
                }
            }
        }
        directories
    }

    /// Everything reachable from the root through the surviving names.
    fn nodes(&self, directories: &BTreeMap<NodeId, Arc<Names>>) -> BTreeMap<NodeId, Node> {
        let mut nodes = BTreeMap::new();
        let mut to_visit = vec![ROOT];
        while let Some(id) = to_visit.pop() {
            if let Some(names) = directories.get(&id) {
                to_visit.extend(names.values().filter(|child| !nodes.contains_key(*child)));
                nodes.insert(id, Node::dir(Arc::clone(names)));
            } else if let Some(Node::File(file)) = self.disk.nodes.get(&id) {
                nodes.insert(id, Node::File(self.file(id, file)));
            }
        }
        nodes
    }

    fn file(&self, id: NodeId, file: &Arc<FileState>) -> Arc<FileState> {
        if file.is_settled() {
            return Arc::clone(file);
        }
        let mut random = SplitMix64::new(mix64(self.seed ^ mix64(id)));
        let content = match self.profile {
            CrashProfile::Nothing | CrashProfile::MetadataFirst => file.durable.clone(),
            CrashProfile::Everything => file.volatile.clone(),
            CrashProfile::Random => self.random_content(file, &mut random),
            CrashProfile::Torn => self.torn_content(id, file, &mut random),
            CrashProfile::Tail => self.tail_content(file, &mut random),
        };
        Arc::new(FileState::settled(content, file))
    }

    fn random_content(&self, file: &FileState, random: &mut SplitMix64) -> Content {
        let mut content = file.durable.clone();
        for sector in file.dirty.iter() {
            if random.chance(self.keep, 8) {
                content.set_sector(sector, &file.volatile.sector(sector));
            } else if let Some(early) = file.early.get(&sector)
                && random.chance(1, 2)
            {
                content.set_sector(sector, early);
            }
        }
        content.set_len(random_len(file, random));
        content
    }

    fn torn_content(&self, id: NodeId, file: &FileState, random: &mut SplitMix64) -> Content {
        let mut content = file.volatile.clone();
        for sector in file.lost.iter() {
            content.set_sector(sector, &file.durable.sector(sector));
        }
        content.set_len(file.volatile.len());
        if let Some(last) = self.disk.last_write.as_ref().filter(|last| last.node == id) {
            tear(&mut content, last, random);
        }
        content
    }

    fn tail_content(&self, file: &FileState, random: &mut SplitMix64) -> Content {
        let old_len = file.durable.len();
        let grown_from = old_len.div_ceil(SECTOR_BYTES);
        let stale_eighths = random.below(9);
        let mut content = file.durable.clone();
        for sector in file.dirty.iter() {
            if sector < grown_from && random.chance(4, 8) {
                content.set_sector(sector, &file.volatile.sector(sector));
            }
        }
        // The sector that held the old end keeps nothing beyond it.
        content.set_len(old_len);
        for sector in file.dirty.iter().filter(|sector| *sector >= grown_from) {
            if random.chance(stale_eighths, 8) {
                content.set_sector(sector, &self.stale_sector(random));
            }
        }
        content.set_len(file.volatile.len());
        content
    }

    /// A durable sector of some file, as a block that once belonged to it might come back.
    fn stale_sector(&self, random: &mut SplitMix64) -> Sector {
        let chosen = self.stale_sources.get(random.index(self.stale_sources.len()));
        match chosen.and_then(|id| self.disk.file(*id).ok()) {
            Some(file) => {
                let sectors = file.durable.len().div_ceil(SECTOR_BYTES);
                file.durable.sector(random.below(sectors))
            }
            None => {
                let mut sector = [0; SECTOR_BYTES as usize];
                random.fill(&mut sector);
                sector
            }
        }
    }
}

/// The durable length, the current one, or one between, with equal odds.
fn random_len(file: &FileState, random: &mut SplitMix64) -> u64 {
    let (durable, volatile) = (file.durable.len(), file.volatile.len());
    match random.below(3) {
        0 => durable,
        1 => volatile,
        _ => durable.min(volatile) + random.below(durable.abs_diff(volatile) + 1),
    }
}

/// Undoes the last write from a random byte on.
fn tear(content: &mut Content, last: &LastWrite, random: &mut SplitMix64) {
    let count = last.replaced.len();
    let end = last.at + count as u64;
    let arrived = random.index(count.max(1));
    let cut = last.at + arrived as u64;
    let len_after = content.len();
    if cut < len_after {
        content.write(cut, &last.replaced[arrived..]);
        let len = if len_after == end { last.len_before.max(cut) } else { len_after };
        content.set_len(len);
    }
}
