//! The memory limit of the process: from the flag, the container or the machine.

use std::path::Path;

/// Bounds of the limit that is derived from the machine, in bytes.
const MIN_BYTES: u64 = 128 << 20;
const MAX_BYTES: u64 = 1 << 30;

/// Folder of the control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// Parses a number of bytes as Kubernetes writes it: `512Mi`, `1G`, `536870912`. `0` means no limit; an empty text means that no
/// limit is given.
///
/// # Errors
/// The text is not a number of bytes.
pub(super) fn parse(text: &str) -> Result<Option<u64>, &'static str> {
    const USAGE: &str = "use a number of bytes such as 512Mi, or 0 for no limit";
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit: u64 = match unit {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return Err(USAGE),
    };
    let number: u64 = digits.parse().map_err(|_| USAGE)?;
    number.checked_mul(unit).map(Some).ok_or("it is too large")
}

/// Reads the limit of the container, in bytes. `None`: no limit, or it cannot be read.
pub(super) fn read_container_limit() -> Option<u64> {
    read_group_limit(&|path| std::fs::read_to_string(path).ok())
}

/// Derives a limit from the machine, in bytes: half of the memory that is available now, at most what hundreds of large charts need.
/// `None`: the available memory is unknown.
pub(super) fn derive_machine_limit() -> Option<u64> {
    parse_available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((kib.saturating_mul(1024) / 2).clamp(MIN_BYTES, MAX_BYTES))
}

/// Returns the lowest limit of the process's control group and its parents. In a container only the innermost group is visible.
/// Reads version 2 of control groups only, which Kubernetes requires since 1.35.
fn read_group_limit(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let own = read(Path::new("/proc/self/cgroup"))?;
    let group = Path::new(own.lines().find_map(|line| line.strip_prefix("0::/"))?);
    let files = group
        .ancestors()
        .map(|group| Path::new(GROUPS).join(group).join("memory.max"));
    files.filter_map(|file| read(&file)?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_quantities_are_parsed() {
        for (text, want) in [
            ("", None),
            ("0", Some(0)),
            ("536870912", Some(536_870_912)),
            ("512Mi", Some(536_870_912)),
            (" 1Gi ", Some(1 << 30)),
            ("1G", Some(1_000_000_000)),
        ] {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
        for text in ["Mi", "1.5Gi", "-1", "512mi", "99999999999Ti", "99999999999999999999"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_default_limit_is_half_of_the_available_memory() {
        for (available, want) in [
            ("MemAvailable:    1000000 kB", Some(512_000_000)),
            ("MemAvailable:   64000000 kB", Some(1 << 30)),
            ("MemAvailable:       1000 kB", Some(128 << 20)),
            ("MemAvailable: much", None),
            ("", None),
        ] {
            let text = format!("MemTotal:       16000000 kB\nMemFree:          200000 kB\n{available}\n");
            assert_eq!(super::parse_available(&text), want, "{available}");
        }
    }

    #[test]
    fn the_lowest_limit_of_the_groups_applies() {
        for (group, files, want) in [
            ("", &[][..], None),
            // In a container the process's own group is the root.
            ("0::/", &[("memory.max", "536870912\n")], Some(512 << 20)),
            ("0::/", &[("memory.max", "max\n")], None),
            (
                "0::/pods/one",
                &[("pods/one/memory.max", "max\n"), ("pods/memory.max", "1073741824\n")],
                Some(1 << 30),
            ),
        ] {
            let read = |path: &Path| match path.strip_prefix(GROUPS) {
                Err(_) => Some(format!("{group}\n")),
                Ok(path) => {
                    let file = files.iter().find(|(name, _)| Path::new(name) == path);
                    file.map(|(_, text)| (*text).to_owned())
                }
            };
            assert_eq!(read_group_limit(&read), want, "{files:?}");
        }
    }
}
