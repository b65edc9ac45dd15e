//! The whole state of a simulated disk: files, names, and names not yet durable.
//!
//! Every directory has two maps from names to nodes, the one that calls see and the one on the
//! medium, and the disk has one list of name changes not yet durable. Syncing a directory moves
//! that directory's changes to the medium; a crash image applies some subset of them. A rename
//! is one change and belongs to the directory of the new name. Pure state behind the lock of
//! [`super::SimVfs`]; hooks and handles live elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

use super::LogForm;
use super::content::MAX_FILE_BYTES;
use super::file::FileState;
use super::handles::LockHolders;
use super::writes::LastWrite;
use crate::rng::{SplitMix64, mix64};
use tidesdb_sys::vfs::DirEntry;

pub(super) type NodeId = u64;
pub(super) type Names = BTreeMap<String, NodeId>;

pub(super) const ROOT: NodeId = 0;

#[derive(Clone, Debug)]
pub(super) enum Node {
    Dir { volatile: Arc<Names>, durable: Arc<Names> },
    File(Arc<FileState>),
}

impl Node {
    pub(super) fn dir(names: Arc<Names>) -> Self {
        Self::Dir { volatile: Arc::clone(&names), durable: names }
    }
}

/// A change of names that is visible but not yet durable.
#[derive(Clone, Debug)]
pub(super) struct NameChange {
    /// The directory whose sync makes the change durable.
    pub(super) dir: NodeId,
    pub(super) child: NodeId,
    pub(super) act: NameAct,
}

#[derive(Clone, Debug)]
pub(super) enum NameAct {
    Add { name: String },
    Remove,
    Move { from_dir: NodeId, name: String },
}

impl NameChange {
    /// The directories whose names the change touches.
    pub(super) fn directories(&self) -> impl Iterator<Item = NodeId> {
        let other = match self.act {
            NameAct::Move { from_dir, .. } if from_dir != self.dir => Some(from_dir),
            _ => None,
        };
        std::iter::once(self.dir).chain(other)
    }

    /// Applies the change to the names of `dir` on the medium. An earlier change of the same node
    /// may be missing there, so what is taken away is the node, under whatever name it has.
    pub(super) fn apply(&self, dir: NodeId, names: &mut Names) {
        match &self.act {
            NameAct::Add { .. } => {}
            NameAct::Remove | NameAct::Move { .. } => names.retain(|_, node| *node != self.child),
        }
        if let NameAct::Add { name } | NameAct::Move { name, .. } = &self.act
            && dir == self.dir
        {
            names.insert(name.clone(), self.child);
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) pending: Vec<NameChange>,
    pub(super) next_node: NodeId,
    pub(super) capacity: Option<u64>,
    pub(super) last_write: Option<LastWrite>,
    pub(super) random: SplitMix64,
    pub(super) mutations: u64,
    pub(super) trace: u64,
    /// How many handles are open on each node.
    pub(super) open: BTreeMap<NodeId, usize>,
    pub(super) locked: BTreeMap<NodeId, LockHolders>,
    /// Syncs still to succeed before one fails.
    pub(super) syncs_before_failure: Option<u64>,
    /// How segments are written that are opened from now on.
    pub(super) log_form: LogForm,
}

impl Disk {
    pub(super) fn new(seed: u64) -> Self {
        Self::restarted(BTreeMap::from([(ROOT, Node::dir(Arc::default()))]), 1, seed)
    }

    /// A disk holding `nodes`, with nothing open, locked or waiting to become durable.
    pub(super) fn restarted(nodes: BTreeMap<NodeId, Node>, next_node: NodeId, seed: u64) -> Self {
        Self {
            nodes,
            pending: Vec::new(),
            next_node,
            capacity: None,
            last_write: None,
            random: SplitMix64::new(seed),
            mutations: 0,
            trace: seed,
            open: BTreeMap::new(),
            locked: BTreeMap::new(),
            syncs_before_failure: None,
            log_form: LogForm::Mapped,
        }
    }

    fn names(&self, dir: NodeId) -> io::Result<&Names> {
        match self.nodes.get(&dir) {
            Some(Node::Dir { volatile, .. }) => Ok(volatile),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn names_mut(&mut self, dir: NodeId) -> io::Result<&mut Names> {
        match self.nodes.get_mut(&dir) {
            Some(Node::Dir { volatile, .. }) => Ok(Arc::make_mut(volatile)),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn is_dir(&self, node: NodeId) -> bool {
        matches!(self.nodes.get(&node), Some(Node::Dir { .. }))
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<NodeId> {
        let mut node = ROOT;
        for component in path.components() {
            match component {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => {
                    let names = self.names(node)?;
                    let found = name.to_str().and_then(|name| names.get(name));
                    node = *found.ok_or(io::ErrorKind::NotFound)?;
                }
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            }
        }
        Ok(node)
    }

    /// The directory that holds the last component of `path`, and that component.
    fn place(&self, path: &Path) -> io::Result<(NodeId, String)> {
        let name = path.file_name().and_then(|name| name.to_str());
        let (Some(name), Some(parent)) = (name, path.parent()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let dir = self.find(parent)?;
        self.names(dir)?;
        Ok((dir, name.to_owned()))
    }

    fn add(&mut self, path: &Path, node: Node) -> io::Result<NodeId> {
        let (dir, name) = self.place(path)?;
        if self.names(dir)?.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let child = self.next_node;
        self.next_node += 1;
        self.nodes.insert(child, node);
        self.names_mut(dir)?.insert(name.clone(), child);
        self.pending.push(NameChange { dir, child, act: NameAct::Add { name } });
        Ok(child)
    }

    pub(super) fn create_file(&mut self, path: &Path) -> io::Result<NodeId> {
        self.add(path, Node::File(Arc::default()))
    }

    /// A file of `size` zero bytes, or nothing when they do not fit.
    pub(super) fn create_segment(&mut self, path: &Path, size: u64) -> io::Result<NodeId> {
        if size > self.room().min(MAX_FILE_BYTES) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let node = self.create_file(path)?;
        self.set_len(node, size)?;
        self.take_log_form(node)?;
        Ok(node)
    }

    pub(super) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        self.add(path, Node::dir(Arc::default())).map(|_| ())
    }

    pub(super) fn find_file(&self, path: &Path) -> io::Result<NodeId> {
        let node = self.find(path)?;
        match self.nodes.get(&node) {
            Some(Node::File(_)) => Ok(node),
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn file(&self, node: NodeId) -> io::Result<&FileState> {
        match self.nodes.get(&node) {
            Some(Node::File(file)) => Ok(file),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn file_mut(&mut self, node: NodeId) -> io::Result<&mut FileState> {
        match self.nodes.get_mut(&node) {
            Some(Node::File(file)) => Ok(Arc::make_mut(file)),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_dir, from_name) = self.place(from)?;
        let (dir, name) = self.place(to)?;
        let child = *self.names(from_dir)?.get(&from_name).ok_or(io::ErrorKind::NotFound)?;
        let target = self.names(dir)?.get(&name).copied();
        if target == Some(child) {
            return Ok(());
        }
        if to.starts_with(from) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match target.map(|target| (self.is_dir(target), self.is_dir(child))) {
            Some((true, _)) => return Err(io::ErrorKind::AlreadyExists.into()),
            Some((false, true)) => return Err(io::ErrorKind::NotADirectory.into()),
            Some((false, false)) | None => {}
        }
        self.names_mut(from_dir)?.remove(&from_name);
        self.names_mut(dir)?.insert(name.clone(), child);
        self.pending.push(NameChange { dir, child, act: NameAct::Move { from_dir, name } });
        Ok(())
    }

    /// A second name in another directory. Changes of names are kept by node, so that two names of
    /// one node in one directory could not be told apart.
    pub(super) fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let child = self.find_file(from)?;
        let (dir, name) = self.place(to)?;
        if self.names(dir)?.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if self.names(dir)?.values().any(|node| *node == child) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.names_mut(dir)?.insert(name.clone(), child);
        self.pending.push(NameChange { dir, child, act: NameAct::Add { name } });
        Ok(())
    }

    /// How many names a node has.
    pub(super) fn links(&self, node: NodeId) -> u64 {
        let names = self.nodes.values().filter_map(|node| match node {
            Node::Dir { volatile, .. } => Some(volatile.values()),
            Node::File(_) => None,
        });
        names.flatten().filter(|named| **named == node).count() as u64
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let child = self.find_file(path)?;
        self.unlink(path, child)
    }

    pub(super) fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        let child = self.find(path)?;
        if !self.names(child)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.unlink(path, child)
    }

    fn unlink(&mut self, path: &Path, child: NodeId) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        self.names_mut(dir)?.remove(&name);
        self.pending.push(NameChange { dir, child, act: NameAct::Remove });
        Ok(())
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let names = self.names(self.find(path)?)?;
        let entry = |(name, node): (&String, &NodeId)| {
            let file = self.file(*node).ok();
            let len = file.map_or(0, |file| file.volatile.len());
            DirEntry { name: name.clone(), is_dir: file.is_none(), len, damage: None }
        };
        Ok(names.iter().map(entry).collect())
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let dir = self.find(path)?;
        self.names(dir)?;
        let (now, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pending).into_iter().partition(|change| change.dir == dir);
        self.pending = later;
        for change in now {
            for dir in change.directories() {
                if let Some(Node::Dir { durable, .. }) = self.nodes.get_mut(&dir) {
                    change.apply(dir, Arc::make_mut(durable));
                }
            }
        }
        self.forget_unreachable();
        Ok(())
    }

    /// Drops nodes that no name, pending change or handle refers to.
    fn forget_unreachable(&mut self) {
        let mut used: BTreeSet<NodeId> = self.open.keys().copied().collect();
        used.insert(ROOT);
        used.extend(self.pending.iter().map(|change| change.child));
        for node in self.nodes.values() {
            if let Node::Dir { volatile, durable } = node {
                used.extend(volatile.values().chain(durable.values()));
            }
        }
        self.nodes.retain(|node, _| used.contains(node));
    }

    /// Adds one event to the running hash of everything that happened.
    pub(super) fn trace_event(&mut self, event: &[u64]) {
        for value in event {
            self.trace = mix64(self.trace ^ *value).wrapping_add(1);
        }
    }
}
