//! The launch parameter tags of a function table (TVM 0.27, `launch_param_tags`), and the values
//! that follow a kernel's own arguments.

use super::LaunchConfig;
use crate::module::device_image::{
    CLUSTER, COOPERATIVE_LAUNCH, DYNAMIC_SHARED_MEMORY, GRID_AND_BLOCK, PROGRAMMATIC_LAUNCH,
};
use crate::value::{AnyView, FromAny};

/// Maximum number of extents: grid, block and cluster.
const EXTENTS: usize = 9;

/// The arguments that a call passes after the kernel's own: extents in the order of their tags,
/// then the dynamic shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LaunchTags {
    /// Numbers of the extents: grid x, y, z, block x, y, z, cluster x, y, z.
    extents: Box<[u8]>,
    dynamic_shared_memory: bool,
    has_cluster: bool,
    cooperative: bool,
    programmatic: bool,
}

/// The reason that the tags of a kernel are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagProblem<'a> {
    Unknown(&'a str),
    Twice(&'a str),
}

/// An invalid launch value: its position, its tag, and the minimum value.
pub(super) struct WrongValue {
    pub(super) position: usize,
    pub(super) tag: &'static str,
    pub(super) least: u32,
}

/// Name of an extent's tag.
#[inline]
fn extent_tag(number: usize) -> &'static str {
    GRID_AND_BLOCK.get(number).or_else(|| CLUSTER.get(number.wrapping_sub(6))).copied().unwrap_or_default()
}

impl LaunchTags {
    #[inline]
    pub(super) fn new<'a>(tags: impl Iterator<Item = &'a str>) -> Result<Self, TagProblem<'a>> {
        let mut extents: Vec<u8> = Vec::new();
        let mut flags = [false; 3];
        for tag in tags {
            if let Some(number) = (0..EXTENTS).find(|number| extent_tag(*number) == tag) {
                if extents.contains(&(number as u8)) {
                    return Err(TagProblem::Twice(tag));
                }
                extents.push(number as u8);
                continue;
            }
            let known = [DYNAMIC_SHARED_MEMORY, COOPERATIVE_LAUNCH, PROGRAMMATIC_LAUNCH];
            let Some(flag) = known.iter().position(|known| *known == tag) else {
                return Err(TagProblem::Unknown(tag));
            };
            if core::mem::replace(&mut flags[flag], true) {
                return Err(TagProblem::Twice(tag));
            }
        }
        let [dynamic_shared_memory, cooperative, programmatic] = flags;
        let has_cluster = extents.iter().any(|number| *number >= 6);
        Ok(Self { extents: extents.into(), dynamic_shared_memory, has_cluster, cooperative, programmatic })
    }

    /// Number of values that a call passes for the tags.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.extents.len() + usize::from(self.dynamic_shared_memory)
    }

    /// The tags that a call passes a value for, in the order of the values.
    #[inline]
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let extents = self.extents.iter().map(|number| extent_tag(usize::from(*number)));
        extents.chain(self.dynamic_shared_memory.then_some(DYNAMIC_SHARED_MEMORY))
    }

    /// Reads the values of a call; there are [`LaunchTags::len`] of them.
    #[inline]
    pub(super) fn read(&self, values: &[AnyView<'_>]) -> Result<LaunchConfig, WrongValue> {
        let mut extents = [1; EXTENTS];
        for (position, (number, value)) in self.extents.iter().zip(values).enumerate() {
            match u32::from_any(value) {
                Ok(value) if value > 0 => extents[usize::from(*number) % EXTENTS] = value,
                _ => return Err(WrongValue { position, tag: extent_tag(usize::from(*number)), least: 1 }),
            }
        }
        let mut dynamic_shared_memory = 0;
        if self.dynamic_shared_memory {
            let position = self.extents.len();
            let value = values.get(position).and_then(|value| u32::from_any(value).ok());
            let wrong = WrongValue { position, tag: DYNAMIC_SHARED_MEMORY, least: 0 };
            dynamic_shared_memory = value.ok_or(wrong)?;
        }
        let [gx, gy, gz, bx, by, bz, cx, cy, cz] = extents;
        Ok(LaunchConfig {
            grid: [gx, gy, gz],
            block: [bx, by, bz],
            cluster: self.has_cluster.then_some([cx, cy, cz]),
            dynamic_shared_memory,
            cooperative: self.cooperative,
            programmatic: self.programmatic,
        })
    }

    /// Adds the table's flags to the configuration. Returns the tag of an extent that is 0 as an
    /// error.
    #[inline]
    pub(super) fn complete(&self, config: &LaunchConfig) -> Result<LaunchConfig, &'static str> {
        let has_zero = |[x, y, z]: [u32; 3]| (x == 0) | (y == 0) | (z == 0);
        if has_zero(config.grid) | has_zero(config.block) || config.cluster.is_some_and(has_zero) {
            return Err(Self::zero(config));
        }
        let mut complete = *config;
        complete.cooperative |= self.cooperative;
        complete.programmatic |= self.programmatic;
        if self.has_cluster {
            complete.cluster.get_or_insert([1; 3]);
        }
        Ok(complete)
    }

    /// The tag of the first extent that is 0.
    #[cold]
    #[inline]
    fn zero(config: &LaunchConfig) -> &'static str {
        let cluster = config.cluster.unwrap_or([1; 3]);
        let mut all = config.grid.iter().chain(&config.block).chain(&cluster);
        extent_tag(all.position(|extent| *extent == 0).unwrap_or(0))
    }

    /// Returns the values of a call with this configuration. The error is the tag of a part that
    /// the kernel does not have a parameter for.
    #[inline]
    pub(super) fn values(&self, config: &LaunchConfig) -> Result<impl Iterator<Item = u32>, &'static str> {
        let cluster = config.cluster.unwrap_or([1; 3]);
        let mut all = [1; EXTENTS];
        for (slot, extent) in all.iter_mut().zip(config.grid.iter().chain(&config.block).chain(&cluster)) {
            *slot = *extent;
        }
        if let Some(number) = (0..EXTENTS).find(|number| all[*number] != 1 && !self.extents.contains(&(*number as u8)))
        {
            return Err(extent_tag(number));
        }
        let wanted = [
            (config.dynamic_shared_memory != 0, self.dynamic_shared_memory, DYNAMIC_SHARED_MEMORY),
            (config.cooperative, self.cooperative, COOPERATIVE_LAUNCH),
            (config.programmatic, self.programmatic, PROGRAMMATIC_LAUNCH),
        ];
        if let Some((_, _, tag)) = wanted.iter().find(|(wanted, there, _)| *wanted && !there) {
            return Err(tag);
        }
        let extents = self.extents.iter().map(move |number| all[usize::from(*number) % EXTENTS]);
        Ok(extents.chain(self.dynamic_shared_memory.then_some(config.dynamic_shared_memory)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::IntoAny;

    fn tags(names: &[&'static str]) -> Result<LaunchTags, TagProblem<'static>> {
        LaunchTags::new(names.iter().copied())
    }

    fn read(tags: &LaunchTags, values: &[i64]) -> Result<LaunchConfig, (usize, &'static str, u32)> {
        let values: Vec<_> = values.iter().map(|value| value.into_any()).collect();
        let views: Vec<_> = values.iter().map(|value| *value.as_view()).collect();
        tags.read(&views).map_err(|wrong| (wrong.position, wrong.tag, wrong.least))
    }

    #[test]
    fn any_subset_in_any_order() {
        let odd =
            tags(&["threadIdx.x", COOPERATIVE_LAUNCH, "blockIdx.y", DYNAMIC_SHARED_MEMORY, "clusterCtaIdx.z"]).unwrap();
        assert_eq!(odd.len(), 4, "the flag has no argument");
        let names: Vec<_> = odd.names().collect();
        assert_eq!(names, ["threadIdx.x", "blockIdx.y", "clusterCtaIdx.z", DYNAMIC_SHARED_MEMORY], "memory is last");
        let config = read(&odd, &[32, 5, 2, 99]).unwrap();
        let expected = LaunchConfig {
            cluster: Some([1, 1, 2]),
            dynamic_shared_memory: 99,
            cooperative: true,
            ..LaunchConfig::new((1, 5), 32)
        };
        assert_eq!(config, expected);
        assert_eq!(odd.values(&expected).map(Iterator::collect::<Vec<_>>), Ok(vec![32, 5, 2, 99]));
        let none = tags(&[]).unwrap();
        assert_eq!(read(&none, &[]), Ok(LaunchConfig::new(1, 1)));
        let programmatic = tags(&[PROGRAMMATIC_LAUNCH]).unwrap();
        assert!(programmatic.complete(&LaunchConfig::new(1, 1)).unwrap().programmatic);
    }

    #[test]
    fn wrong_tags_and_values() {
        assert_eq!(tags(&["blockIdx.w"]), Err(TagProblem::Unknown("blockIdx.w")));
        assert_eq!(tags(&["tir.use_dyn_shared_memory"]), Err(TagProblem::Unknown("tir.use_dyn_shared_memory")));
        assert_eq!(tags(&["blockIdx.x", "blockIdx.x"]), Err(TagProblem::Twice("blockIdx.x")));
        assert_eq!(tags(&[COOPERATIVE_LAUNCH; 2]), Err(TagProblem::Twice(COOPERATIVE_LAUNCH)));
        let both = tags(&["blockIdx.x", DYNAMIC_SHARED_MEMORY]).unwrap();
        assert_eq!(read(&both, &[0, 0]), Err((0, "blockIdx.x", 1)));
        assert_eq!(read(&both, &[1 << 32, 0]), Err((0, "blockIdx.x", 1)));
        assert_eq!(read(&both, &[1, -1]), Err((1, DYNAMIC_SHARED_MEMORY, 0)));
        assert_eq!(both.complete(&LaunchConfig::new(1, [1, 0])), Err("threadIdx.y"));
        for (config, tag) in [
            (LaunchConfig::new((1, 2), 1), "blockIdx.y"),
            (LaunchConfig::new(1, 2), "threadIdx.x"),
            (LaunchConfig { cluster: Some([1, 1, 2]), ..LaunchConfig::new(1, 1) }, "clusterCtaIdx.z"),
            (LaunchConfig { cooperative: true, ..LaunchConfig::new(1, 1) }, COOPERATIVE_LAUNCH),
            (LaunchConfig { programmatic: true, ..LaunchConfig::new(1, 1) }, PROGRAMMATIC_LAUNCH),
        ] {
            assert_eq!(both.values(&config).err(), Some(tag));
        }
    }
}
