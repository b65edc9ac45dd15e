//! What is wrong with a database, or could be better: a pure function of the facts.

mod families;
mod files;
mod load;

use super::Facts;
pub(crate) use files::reserve_bytes;

/// Lookups in the cache from which its hit rate means something.
const LEAST_LOOKUPS: u64 = 1000;
/// Garbage of less than this is not worth a word.
const LEAST_GARBAGE_BYTES: u64 = 8 << 20;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Something fails, or will.
    Problem,
    /// It could be better.
    Advice,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// One word, in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Advice => "advice",
            Self::Note => "note",
        }
    }
}

/// Something that is worth a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// The family concerned, or none.
    pub(crate) family: Option<String>,
    /// What is so.
    pub(crate) what: String,
    /// What to do, and why that helps.
    pub(crate) advice: String,
    /// The option to change.
    pub(crate) option: Option<&'static str>,
}

/// Collects findings.
#[derive(Default)]
struct Findings {
    family: Option<String>,
    list: Vec<Finding>,
}

impl Findings {
    fn add(
        &mut self,
        severity: Severity,
        option: Option<&'static str>,
        what: String,
        advice: impl Into<String>,
    ) {
        let (family, advice) = (self.family.clone(), advice.into());
        self.list.push(Finding { severity, family, what, advice, option });
    }
}

/// All findings, the worst first.
pub(crate) fn diagnose(facts: &Facts) -> Vec<Finding> {
    let mut findings = Findings::default();
    files::volume(facts, &mut findings);
    files::files(facts, &mut findings);
    load::stalls(facts, &mut findings);
    load::told_stalls(facts, &mut findings);
    load::memory(facts, &mut findings);
    load::cache(facts, &mut findings);
    files::left_out(facts, &mut findings);
    files::log(facts, &mut findings);
    files::descriptors(facts, &mut findings);
    for family in &facts.families {
        findings.family = Some(family.name.clone());
        families::space(family, &mut findings);
        families::reads(family, &mut findings);
    }
    findings.list.sort_by_key(|finding| finding.severity);
    findings.list
}
