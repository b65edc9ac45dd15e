//! Cycles in the graph: which kind of them there is, and the smallest one.
//!
//! Kinds are tried from the gravest on, each with the edges that it allows; strongly connected
//! parts (Tarjan) say whether there is a cycle, and a breadth-first search finds a short one.

use std::collections::VecDeque;

use super::facts::Facts;
use super::graph::{Edge, Graph, kind};
use super::{Phenomenon, Report, cast};

/// Nodes of a strongly connected part from which a shortest cycle is looked for.
const MOST_STARTS: usize = 300;

const DEPENDENCIES: u8 = kind::WRITE_WRITE | kind::WRITE_READ;
const ITEMS: u8 = DEPENDENCIES | kind::READ_WRITE;
const RANGES: u8 = ITEMS | kind::RANGE_READ_WRITE;

/// What no mix of levels may show.
pub(super) fn check_mixed(graph: &Graph, facts: &Facts<'_>, report: &mut Report) {
    let kinds = [
        (kind::WRITE_WRITE, Phenomenon::DirtyWrite),
        (DEPENDENCIES, Phenomenon::CircularFlow),
        (RANGES, Phenomenon::WriteSkew),
    ];
    report_first(graph, facts, &kinds, report);
}

/// What serializable transactions may not show to each other.
pub(super) fn check_serializable(graph: &Graph, facts: &Facts<'_>, report: &mut Report) {
    let kinds = [
        (kind::WRITE_WRITE, Phenomenon::DirtyWrite),
        (DEPENDENCIES, Phenomenon::CircularFlow),
        (ITEMS, Phenomenon::WriteSkew),
        (RANGES, Phenomenon::Phantom),
        (RANGES | kind::TIME, Phenomenon::NotInRealTime),
    ];
    report_first(graph, facts, &kinds, report);
}

fn report_first(graph: &Graph, facts: &Facts<'_>, kinds: &[(u8, Phenomenon)], report: &mut Report) {
    let widest = kinds.last().map_or(0, |(mask, _)| *mask);
    if cyclic_part(graph, widest).is_none() {
        return;
    }
    for (mask, phenomenon) in kinds {
        if let Some(part) = cyclic_part(graph, *mask) {
            let cycle = smallest_cycle(graph, &part, *mask);
            report.add(*phenomenon, || describe(graph, facts, &cycle));
            return;
        }
    }
}

/// The smallest strongly connected part of more than one node, of the edges of a mask.
fn cyclic_part(graph: &Graph, mask: u8) -> Option<Vec<usize>> {
    let mut search = Search::new(graph.edges.len());
    for start in 0..graph.edges.len() {
        if search.index[start] == UNSEEN {
            search.run(graph, mask, start);
        }
    }
    search.smallest
}

const UNSEEN: usize = usize::MAX;

/// Tarjan's algorithm with a stack of its own.
struct Search {
    index: Vec<usize>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    next: usize,
    smallest: Option<Vec<usize>>,
}

impl Search {
    fn new(nodes: usize) -> Self {
        Self {
            index: vec![UNSEEN; nodes],
            low: vec![0; nodes],
            on_stack: vec![false; nodes],
            stack: Vec::new(),
            next: 0,
            smallest: None,
        }
    }

    fn enter(&mut self, node: usize) {
        self.index[node] = self.next;
        self.low[node] = self.next;
        self.next += 1;
        self.stack.push(node);
        self.on_stack[node] = true;
    }

    fn run(&mut self, graph: &Graph, mask: u8, start: usize) {
        let mut path = vec![(start, 0)];
        self.enter(start);
        while let Some((node, edge)) = path.last_mut() {
            let node = *node;
            let Some(next) = graph.edges[node].get(*edge) else {
                path.pop();
                if let Some((parent, _)) = path.last() {
                    self.low[*parent] = self.low[*parent].min(self.low[node]);
                }
                self.leave(node);
                continue;
            };
            *edge += 1;
            if next.kind & mask == 0 {
                continue;
            }
            if self.index[next.to] == UNSEEN {
                self.enter(next.to);
                path.push((next.to, 0));
            } else if self.on_stack[next.to] {
                self.low[node] = self.low[node].min(self.index[next.to]);
            }
        }
    }

    fn leave(&mut self, node: usize) {
        if self.low[node] != self.index[node] {
            return;
        }
        let mut part = Vec::new();
        while let Some(member) = self.stack.pop() {
            self.on_stack[member] = false;
            part.push(member);
            if member == node {
                break;
            }
        }
        let smaller = self.smallest.as_ref().is_none_or(|best| part.len() < best.len());
        if part.len() > 1 && smaller {
            self.smallest = Some(part);
        }
    }
}

/// A shortest cycle within a strongly connected part: nodes with the edge that leads on.
fn smallest_cycle(graph: &Graph, part: &[usize], mask: u8) -> Vec<(usize, Edge)> {
    let mut member = vec![false; graph.edges.len()];
    part.iter().for_each(|node| member[*node] = true);
    let starts = part.iter().filter(|node| **node < graph.transactions).take(MOST_STARTS);
    let cycles = starts.map(|start| cycle_through(graph, *start, mask, &member));
    cycles.filter(|cycle| !cycle.is_empty()).min_by_key(Vec::len).unwrap_or_default()
}

fn cycle_through(graph: &Graph, start: usize, mask: u8, member: &[bool]) -> Vec<(usize, Edge)> {
    let mut came_from: Vec<Option<(usize, Edge)>> = vec![None; graph.edges.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for edge in graph.edges[node].iter().filter(|e| e.kind & mask != 0 && member[e.to]) {
            if came_from[edge.to].is_some() {
                continue;
            }
            came_from[edge.to] = Some((node, *edge));
            if edge.to == start {
                return unwind(&came_from, start);
            }
            queue.push_back(edge.to);
        }
    }
    Vec::new()
}

fn unwind(came_from: &[Option<(usize, Edge)>], start: usize) -> Vec<(usize, Edge)> {
    let mut cycle = Vec::new();
    let mut at = start;
    while let Some((from, edge)) = came_from[at] {
        cycle.push((from, edge));
        at = from;
        if at == start {
            break;
        }
    }
    cycle.reverse();
    cycle
}

/// `T1 -rw(k2)-> T2 -ww(k1)-> T1`, and what the members did.
fn describe(graph: &Graph, facts: &Facts<'_>, cycle: &[(usize, Edge)]) -> String {
    let mut text = String::new();
    let mut members = Vec::new();
    let mut in_chain = false;
    for (node, edge) in cycle {
        if *node < graph.transactions {
            members.push(*node);
            text += &format!("T{node} ");
            in_chain = false;
        }
        if in_chain {
            continue;
        }
        in_chain = true;
        let key = facts.keys.get(edge.key).map_or_else(String::new, ToString::to_string);
        text += &match edge.kind {
            kind::WRITE_WRITE => format!("-ww({key})-> "),
            kind::WRITE_READ => format!("-wr({key})-> "),
            kind::READ_WRITE => format!("-rw({key})-> "),
            kind::RANGE_READ_WRITE => format!("-rw(range with {key})-> "),
            _ => "-was over before-> ".to_owned(),
        };
    }
    let first = cycle.first().map_or(0, |(node, _)| *node);
    format!("{text}T{first}{}", cast(facts.history, &members))
}
