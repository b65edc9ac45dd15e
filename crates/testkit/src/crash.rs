//! Crash images: taken at changes of the simulated disk in the middle of a workload, opened, and
//! judged.
//!
//! A hook of the disk takes the images; they are independent copies and judged between two
//! operations, because the engine is in the middle of something while the hook runs. The order of
//! the judgement: open succeeds; the deep check passes; the content is one prefix of the history
//! within the bounds of the crash's kind; a second open shows the same; one image in so many is
//! crashed again at every change that its own recovery makes; fifty more operations work, and
//! crash images of those are judged as well.

use std::sync::{Arc, Mutex};

use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{CrashProfile, Mutation, MutationKind, Phase, SimVfs};
use tidesdb_sys::vfs::Vfs;

use crate::Verdict;
use crate::inspect;
use crate::oracle::Contents;
use crate::runner::{Machine, Promises, Runner, SharedPromises, locked};
use crate::settings::Mix;

/// A disk after a crash, with what it must hold.
#[derive(Debug)]
pub struct Image {
    sim: Arc<SimVfs>,
    profile: CrashProfile,
    site: String,
    promises: Promises,
}

impl Image {
    /// The last transaction that must have survived.
    fn lower(&self) -> u64 {
        if self.profile == CrashProfile::Everything {
            self.promises.acknowledged
        } else {
            self.promises.durable
        }
    }
}

/// How often a change of the disk is followed by a crash, of a hundred thousand.
#[derive(Clone, Copy, Debug)]
pub struct Odds {
    /// At a piece of a log record, of 64 bytes or of a page, of which there are very many.
    pub piece: u64,
    /// At everything else.
    pub other: u64,
}

impl Odds {
    /// A crash before and after every single change.
    pub const ALWAYS: Self = Self { piece: Self::OF, other: Self::OF };

    const OF: u64 = 100_000;
}

#[derive(Debug)]
struct Collector {
    random: SplitMix64,
    odds: Odds,
    images: Vec<Image>,
}

/// Takes crash images of one disk.
#[derive(Clone, Debug)]
pub struct Camera(Arc<Mutex<Collector>>);

impl Camera {
    /// Watches `sim` from now on.
    #[must_use]
    pub fn install(sim: &SimVfs, promises: &SharedPromises, seed: u64, odds: Odds) -> Self {
        let collector = Collector { random: SplitMix64::new(seed), odds, images: Vec::new() };
        let camera = Self(Arc::new(Mutex::new(collector)));
        let (taking, promises) = (camera.clone(), Arc::clone(promises));
        sim.on_mutation(Some(Arc::new(move |sim, mutation| {
            follow_syncs(&promises, mutation);
            taking.look(sim, &promises, mutation);
        })));
        camera
    }

    fn look(&self, sim: &SimVfs, promises: &SharedPromises, mutation: &Mutation<'_>) {
        let mut collector = locked(&self.0);
        let piece = mutation.kind == MutationKind::SegmentPiece;
        let odds = if piece { collector.odds.piece } else { collector.odds.other };
        if !collector.random.chance(odds, Odds::OF) {
            return;
        }
        let profile = CrashProfile::ALL[collector.random.index(CrashProfile::ALL.len())];
        let seed = collector.random.next_u64();
        let site = format!(
            "{:?} change {} ({:?} of {} at {} length {}), {profile:?} with seed {seed}",
            mutation.phase,
            mutation.index,
            mutation.kind,
            mutation.path.display(),
            mutation.at,
            mutation.len
        );
        let promises = locked(promises).clone();
        collector.images.push(Image {
            sim: sim.crash_image(profile, seed),
            profile,
            site,
            promises,
        });
    }

    /// The images taken since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<Image> {
        std::mem::take(&mut locked(&self.0).images)
    }
}

/// A log sync that has returned makes everything durable that was acknowledged when it began. Full
/// segments are synced before, as a whole, and promise nothing by themselves.
fn follow_syncs(promises: &SharedPromises, mutation: &Mutation<'_>) {
    if mutation.kind != MutationKind::SegmentSync || mutation.len == u64::MAX {
        return;
    }
    let mut promises = locked(promises);
    match mutation.phase {
        Phase::Before => promises.syncing = promises.acknowledged,
        Phase::After => promises.durable = promises.durable.max(promises.syncing),
    }
}

/// Segments of the log after everything was flushed and the database was opened again: the last
/// one, the new one, and a few more.
const MOST_SEGMENTS: usize = 8;

/// What was judged so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Images of the workloads themselves.
    pub images: u64,
    /// Images of recoveries of images.
    pub nested: u64,
    /// Images of workloads that went on after a crash.
    pub second_generation: u64,
    /// Images that lost transactions, of all: a harness in which nothing is lost proves nothing.
    pub lossy: u64,
}

/// Judges images.
#[derive(Debug)]
pub struct Judge {
    /// What was judged so far.
    pub counts: Counts,
    random: SplitMix64,
    /// Of so many images the recovery of one is crashed again.
    nesting: u64,
}

impl Judge {
    /// A judge whose choices are determined by `seed`. Of `nesting` images it crashes the recovery
    /// of one again.
    #[must_use]
    pub fn new(seed: u64, nesting: u64) -> Self {
        Self { counts: Counts::default(), random: SplitMix64::new(seed), nesting }
    }

    /// Judges the images of `parent`'s workload.
    ///
    /// # Errors
    /// The first finding.
    pub fn judge_all(&mut self, parent: &Runner, camera: &Camera, depth: usize) -> Verdict {
        for image in camera.take() {
            let site = image.site.clone();
            self.judge(parent, image, depth).map_err(|e| format!("crash {site}: {e}"))?;
        }
        Ok(())
    }

    fn judge(&mut self, parent: &Runner, image: Image, depth: usize) -> Verdict {
        let count =
            if depth == 0 { &mut self.counts.images } else { &mut self.counts.second_generation };
        *count += 1;
        // By chance: there are fewer images than that of a workload with few changes.
        let nested = depth == 0 && self.random.chance(1, self.nesting);
        let nested = nested.then(|| image.sim.fork());
        let (lower, upper) = (image.lower(), image.promises.started);
        let machine = parent.machine.with_disk(Arc::clone(&image.sim));
        let promises = Arc::new(Mutex::new(image.promises.clone()));
        let seed = self.random.next_u64();
        let mut runner = Runner::start(machine, seed, parent.history.clone(), promises)?;
        check_files(&runner)?;
        let (number, contents) = runner.find_prefix(lower, upper)?;
        self.counts.lossy += u64::from(number < upper);
        if self.random.chance(1, 3) {
            runner.check_all_ways(&contents)?;
        }
        reopen_shows(&mut runner, &contents).map_err(|e| format!("second open: {e}"))?;
        if let Some(disk) = nested {
            self.crash_recovery(&runner, &image, &disk, &contents)?;
        }
        runner.history.truncate_behind(number);
        {
            let mut promises = locked(&runner.promises);
            (promises.acknowledged, promises.durable, promises.syncing) = (number, number, number);
        }
        self.go_on(&mut runner, depth).map_err(|e| format!("after recovery of 1..={number}: {e}"))
    }

    /// Fifty more operations, some of them with crashes, and an end in good order.
    fn go_on(&mut self, runner: &mut Runner, depth: usize) -> Verdict {
        let watched = depth < 2 && self.random.chance(1, 8);
        if watched {
            let odds = match runner.machine.settings.mix {
                Mix::Everything => Odds { piece: 300, other: 2_000 },
                // Many more files change.
                Mix::Overwrites => Odds { piece: 10, other: 200 },
            };
            let seed = self.random.next_u64();
            let camera = Camera::install(&runner.machine.sim, &runner.promises, seed, odds);
            runner.run(50, |runner| self.judge_all(runner, &camera, depth + 1))?;
            runner.machine.sim.on_mutation(None);
        } else {
            runner.run(50, |_| Ok(()))?;
        }
        runner.check()?;
        runner.apply(&crate::operations::Operation::Compact)?;
        let contents = runner.read()?;
        reopen_shows(runner, &contents)?;
        inspect::check_log(runner.machine.sim.as_ref(), &Machine::dir(), MOST_SEGMENTS)?;
        let aside = Machine::dir().join("set-aside");
        match runner.machine.sim.list(&aside) {
            Ok(entries) if !entries.is_empty() => Err(format!("still set aside: {entries:?}")),
            _ => Ok(()),
        }
    }

    /// Crashes the recovery of an image at each of its changes; every time the same must come out.
    fn crash_recovery(
        &mut self,
        parent: &Runner,
        image: &Image,
        disk: &Arc<SimVfs>,
        contents: &Contents,
    ) -> Verdict {
        let promises = Arc::new(Mutex::new(image.promises.clone()));
        let seed = self.random.next_u64();
        let camera = Camera::install(disk, &promises, seed, Odds::ALWAYS);
        let machine = parent.machine.with_disk(Arc::clone(disk));
        Runner::start(machine, seed, parent.history.clone(), promises)?;
        disk.on_mutation(None);
        for again in camera.take() {
            self.counts.nested += 1;
            let context = |e| format!("recovery crashed {}: {e}", again.site);
            let machine = parent.machine.with_disk(Arc::clone(&again.sim));
            let promises = Arc::new(Mutex::new(image.promises.clone()));
            let runner =
                Runner::start(machine, seed, parent.history.clone(), promises).map_err(context)?;
            let found = runner.read().map_err(context)?;
            if found != *contents {
                let differences = parent.history.differences(contents, &found);
                return Err(context(format!("other content than without: {differences}")));
            }
            check_files(&runner).map_err(context)?;
        }
        Ok(())
    }
}

/// Has the engine check everything that an opening left, and looks at the directory.
pub(crate) fn check_files(runner: &Runner) -> Verdict {
    let Some(db) = &runner.db else { return Err("no database is open".to_owned()) };
    inspect::deep_check(db, runner.machine.sim.as_ref(), &Machine::dir())
}

fn reopen_shows(runner: &mut Runner, contents: &Contents) -> Verdict {
    runner.shut();
    runner.open()?;
    check_files(runner)?;
    let found = runner.read()?;
    if found == *contents {
        return Ok(());
    }
    Err(format!("other content than before: {}", runner.history.differences(contents, &found)))
}
