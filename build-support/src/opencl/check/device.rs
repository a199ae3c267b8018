//! The devices that sources are compiled for.

use std::fmt;

/// A device, as the program lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// The index of the platform, and of the device in the platform.
    pub(super) platform: usize,
    pub(super) number: usize,
    platform_name: String,
    name: String,
    /// Versions of driver and language.
    driver: String,
    version: String,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", self.name, self.platform_name, self.driver)
    }
}

impl Device {
    /// A text with everything that determines the output of its compiler for a source.
    pub(super) fn identity(&self) -> String {
        format!("{}\n{}\n{}\n{}", self.platform_name, self.name, self.driver, self.version)
    }

    /// Parses the devices of a list, without duplicates. `wish` is `KERNPACK_OPENCL_DEVICES`, as
    /// the runtime reads it.
    pub(super) fn all(list: &str, wish: Option<&str>) -> Result<Vec<Self>, String> {
        let mut devices: Vec<Self> = list.lines().filter_map(Self::parse).collect();
        if let Some(wish) = wish.filter(|wish| !wish.trim().is_empty()) {
            let wishes: Vec<_> =
                wish.split(',').map(|item| item.split_once(':').map_or((item, None), |(p, d)| (p, Some(d)))).collect();
            devices.retain(|device| {
                wishes.iter().any(|(platform, own)| {
                    fits(platform, device.platform, &device.platform_name)
                        && own.is_none_or(|own| fits(own, device.number, &device.name))
                })
            });
            if devices.is_empty() {
                return Err(format!("KERNPACK_OPENCL_DEVICES is \"{wish}\", which fits no device of this machine"));
            }
        }
        let mut seen = Vec::new();
        devices.retain(|device| {
            let identity = device.identity();
            let is_new = !seen.contains(&identity);
            seen.push(identity);
            is_new
        });
        Ok(devices)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut values = line.split('\t');
        let mut number = || values.next()?.parse().ok();
        let (platform, number) = (number()?, number()?);
        let mut text = || values.next().map(str::to_owned);
        let (platform_name, name, driver, version) = (text()?, text()?, text()?, text()?);
        Some(Self { platform, number, platform_name, name, driver, version })
    }
}

/// Returns true if a request, a number or a part of a name, matches.
fn fits(wish: &str, number: usize, name: &str) -> bool {
    let wish = wish.trim();
    match wish.parse::<usize>() {
        Ok(wanted) => wanted == number,
        Err(_) => !wish.is_empty() && name.to_lowercase().contains(&wish.to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "0\t0\tPortable\tpthread-EPYC\t3.1\tOpenCL 3.0\n0\t1\tPortable\tpthread-EPYC\t3.1\tOpenCL 3.0\nnoise\n\
                        1\t0\tNVIDIA CUDA\tH200\t580.1\tOpenCL 3.0 CUDA\n";

    #[test]
    fn lists_are_read() {
        let names = |wish: Option<&str>| {
            Device::all(LIST, wish).map(|devices| devices.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let (cpu, gpu) = ("pthread-EPYC (Portable 3.1)".to_owned(), "H200 (NVIDIA CUDA 580.1)".to_owned());
        assert_eq!(names(None).unwrap(), [cpu.clone(), gpu.clone()]);
        assert_eq!(names(Some(" ")).unwrap().len(), 2);
        assert_eq!(names(Some("nvidia")).unwrap(), [gpu]);
        assert_eq!(names(Some("portable:1, amd")).unwrap(), [cpu]);
        assert_eq!(
            names(Some("amd")).unwrap_err(),
            "KERNPACK_OPENCL_DEVICES is \"amd\", which fits no device of this machine"
        );
        assert_eq!(Device::all("", None).unwrap(), []);
    }
}
