//! Groups: stages that are computed together.

use std::collections::{HashMap, HashSet};

use super::primitives::Context;
use super::stage::{Schedule, Stage, StageId};
use crate::error::Result;
use crate::ir::{Operation, Tensor};
use crate::te::operation::input_tensors;

impl Schedule {
    /// Creates a group of the stages between these outputs and these inputs:
    /// `s.stage(group).compute_at(..)` sets the place where all of them are computed. The group
    /// contains the outputs; it contains the inputs if `include_inputs` is true. Groups can be
    /// nested, but cannot overlap otherwise.
    ///
    /// # Errors
    /// Returns an error if there is no stage between outputs and inputs, or if the stages are a
    /// part of another group.
    #[track_caller]
    pub fn create_group(&mut self, outputs: &[&Tensor], inputs: &[&Tensor], include_inputs: bool) -> Result<StageId> {
        let context = Context::new("create_group");
        let mut ends = Vec::new();
        for tensor in outputs {
            ends.push(self.find(&(*tensor).into()).map_err(|error| context.wrap(&error))?);
        }
        let mut boundary = HashSet::new();
        for tensor in inputs {
            let id = self.find(&(*tensor).into()).map_err(|error| context.wrap(&error))?;
            boundary.insert(self[id].operation().clone());
        }
        let mut between = Between { boundary: &boundary, include_inputs, reached: HashMap::new(), found: Vec::new() };
        for id in ends {
            between.follow(self[id].operation());
        }
        let members: Vec<StageId> = between.found.iter().filter_map(|op| self.stage_of(op)).collect();
        if members.is_empty() {
            return Err(context
                .error("no stage is between the outputs and the inputs")
                .note("the outputs depend on the inputs"));
        }
        if let Some(&input) = members.iter().find(|&&id| self[id].is_placeholder()) {
            let what = format!("`{}` is an input of the schedule: it is not computed", self[input].name());
            return Err(context.error(what));
        }
        let units = self.whole_groups(&members);
        let parent = self[units[0]].group;
        if let Some(&other) = units.iter().find(|&&unit| self[unit].group != parent) {
            let what = format!("`{}` and `{}` are in different groups", self[units[0]].name(), self[other].name());
            return Err(context.error(what).note("a group has all stages of another group or none"));
        }
        let mut group = Stage::group();
        group.group = parent;
        group.num_children = units.len();
        let id = self.add(group);
        self.groups.push(id);
        if let Some(parent) = parent {
            self[parent].num_children = self[parent].num_children + 1 - units.len();
        }
        for unit in units {
            self[unit].group = Some(id);
        }
        Ok(id)
    }

    /// The members, with each group of which all stages are members in place of these stages.
    fn whole_groups(&self, members: &[StageId]) -> Vec<StageId> {
        let mut units: Vec<StageId> = members.to_vec();
        loop {
            let mut counts: HashMap<StageId, usize> = HashMap::new();
            for &unit in &units {
                if let Some(group) = self[unit].group {
                    *counts.entry(group).or_default() += 1;
                }
            }
            let whole = counts.into_iter().filter(|&(group, count)| count == self[group].num_children);
            // If all units are exactly one group, the new group is inside of it; if there are other
            // units, that group is a member.
            let Some((whole, _)) = whole.filter(|&(_, count)| count < units.len()).min() else { return units };
            units.retain(|&unit| self[unit].group != Some(whole));
            units.push(whole);
        }
    }
}

struct Between<'a> {
    boundary: &'a HashSet<Operation>,
    include_inputs: bool,
    reached: HashMap<Operation, bool>,
    found: Vec<Operation>,
}

impl Between<'_> {
    /// Returns true if an operation depends on the boundary; such operations are collected.
    fn follow(&mut self, op: &Operation) -> bool {
        if let Some(&known) = self.reached.get(op) {
            return known;
        }
        if self.boundary.contains(op) {
            self.reached.insert(op.clone(), true);
            if self.include_inputs {
                self.found.push(op.clone());
            }
            return true;
        }
        self.reached.insert(op.clone(), false);
        let reaches = crate::ir::with_stack(|| {
            input_tensors(op).iter().fold(false, |reaches, input| self.follow(&input.op) | reaches)
        });
        self.reached.insert(op.clone(), reaches);
        if reaches {
            self.found.push(op.clone());
        }
        reaches
    }
}
