/// One to three extents of a grid or a block; omitted ones are 1.
///
/// ```
/// use kernpack::module::Extents;
/// assert_eq!(Extents::from(7), Extents([7, 1, 1]));
/// assert_eq!(Extents::from((7, 2)), Extents([7, 2, 1]));
/// assert_eq!(Extents::from([7, 2, 3]), Extents([7, 2, 3]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extents(
    /// x, y, z.
    pub [u32; 3],
);

impl From<u32> for Extents {
    #[inline]
    fn from(x: u32) -> Self {
        Self([x, 1, 1])
    }
}

impl From<(u32, u32)> for Extents {
    #[inline]
    fn from((x, y): (u32, u32)) -> Self {
        Self([x, y, 1])
    }
}

impl From<(u32, u32, u32)> for Extents {
    #[inline]
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self([x, y, z])
    }
}

impl From<[u32; 1]> for Extents {
    #[inline]
    fn from([x]: [u32; 1]) -> Self {
        Self([x, 1, 1])
    }
}

impl From<[u32; 2]> for Extents {
    #[inline]
    fn from([x, y]: [u32; 2]) -> Self {
        Self([x, y, 1])
    }
}

impl From<[u32; 3]> for Extents {
    #[inline]
    fn from(extents: [u32; 3]) -> Self {
        Self(extents)
    }
}

/// The launch configuration of a kernel.
///
/// ```
/// use kernpack::module::LaunchConfig;
/// let config = LaunchConfig { dynamic_shared_memory: 4096, ..LaunchConfig::new((8, 8), 256) };
/// assert_eq!((config.grid, config.block), ([8, 8, 1], [256, 1, 1]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchConfig {
    /// Number of blocks (work groups) along x, y and z; at least 1 each.
    pub grid: [u32; 3],
    /// Number of threads of a block (work items of a group) along x, y and z; at least 1 each.
    pub block: [u32; 3],
    /// Number of blocks of a cluster along x, y and z, for kernels that are launched in clusters;
    /// at least 1 each.
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared (local) memory for each block.
    pub dynamic_shared_memory: u32,
    /// True if all blocks run at the same time, so that they can wait for each other (a cooperative
    /// launch).
    pub cooperative: bool,
    /// True if the kernel may begin before the previous kernel in the stream is done (programmatic
    /// dependent launch).
    pub programmatic: bool,
}

impl LaunchConfig {
    /// Creates the configuration of a plain launch with this grid and block.
    #[inline]
    pub fn new(grid: impl Into<Extents>, block: impl Into<Extents>) -> Self {
        Self {
            grid: grid.into().0,
            block: block.into().0,
            cluster: None,
            dynamic_shared_memory: 0,
            cooperative: false,
            programmatic: false,
        }
    }
}

/// A plain launch with a grid and a block.
///
/// ```
/// use kernpack::module::LaunchConfig;
/// assert_eq!(LaunchConfig::from(((8, 8), 256)), LaunchConfig::new((8, 8), 256));
/// ```
impl<Grid: Into<Extents>, Block: Into<Extents>> From<(Grid, Block)> for LaunchConfig {
    #[inline]
    fn from((grid, block): (Grid, Block)) -> Self {
        Self::new(grid, block)
    }
}

impl From<&LaunchConfig> for LaunchConfig {
    #[inline]
    fn from(config: &LaunchConfig) -> Self {
        *config
    }
}
