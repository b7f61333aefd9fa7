//! How much memory the process may take: a flag says so, or the container that it runs in.

use std::path::{Path, PathBuf};

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";
/// What the first version of control groups says where there is no limit is near the largest number there is.
const ENDLESS: u64 = 1 << 60;

/// A number of bytes as Kubernetes writes it: `512Mi`, `1G`, `536870912`; `0` is no limit.
///
/// # Errors
/// It is none.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
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
        _ => return Err("use a number of bytes such as 512Mi, or 0 for no limit".to_owned()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "use a number of bytes such as 512Mi, or 0 for no limit".to_owned())?;
    number.checked_mul(unit).ok_or_else(|| "it is too large".to_owned())
}

/// The limit of the container, in bytes. `None`: there is none, or none that can be found out.
pub(super) fn of_container() -> Option<u64> {
    of_group(&|path| std::fs::read_to_string(path).ok())
}

/// The least limit of the process's control group and those around it; in a container the innermost is all there is.
fn of_group(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let own = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let second = own.lines().find_map(|line| line.strip_prefix("0::"));
    let first = own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "memory").then_some(path)
    });
    let limits = [(second, "", "memory.max"), (first, "memory", "memory.limit_in_bytes")]
        .into_iter()
        .flat_map(|(group, folder, file)| {
            let top = Path::new(GROUPS).join(folder);
            let group = Path::new(group.unwrap_or_default().trim_start_matches('/'));
            let groups: Vec<PathBuf> = group.ancestors().map(|group| top.join(group).join(file)).collect();
            groups
                .into_iter()
                .filter_map(|file| read(&file)?.trim().parse::<u64>().ok())
        });
    limits.min().filter(|limit| *limit < ENDLESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        let table = [
            ("0", 0),
            ("536870912", 536_870_912),
            ("512Mi", 536_870_912),
            (" 1Gi ", 1 << 30),
            ("1G", 1_000_000_000),
        ];
        for (text, want) in table {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
        for text in [
            "",
            "Mi",
            "1.5Gi",
            "-1",
            "512mi",
            "99999999999Ti",
            "99999999999999999999",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_least_limit_of_the_groups_counts() {
        type Files = &'static [(&'static str, &'static str)];
        let table: [(Files, Option<u64>); 6] = [
            (&[], None),
            // In a container, version 2: its own group is the root.
            (
                &[
                    ("/proc/self/cgroup", "0::/\n"),
                    ("/sys/fs/cgroup/memory.max", "536870912\n"),
                ],
                Some(512 << 20),
            ),
            (
                &[("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/memory.max", "max\n")],
                None,
            ),
            (
                &[
                    ("/proc/self/cgroup", "0::/pods/one\n"),
                    ("/sys/fs/cgroup/pods/one/memory.max", "max\n"),
                    ("/sys/fs/cgroup/pods/memory.max", "1073741824\n"),
                ],
                Some(1 << 30),
            ),
            (
                &[
                    ("/proc/self/cgroup", "5:memory:/docker/a\n0::/docker/a\n"),
                    ("/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", "268435456\n"),
                    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ],
                Some(256 << 20),
            ),
            // The path is the host's, the files are the container's.
            (
                &[
                    ("/proc/self/cgroup", "4:cpu,memory:/kubepods/pod1/a\n"),
                    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728\n"),
                ],
                Some(128 << 20),
            ),
        ];
        for (files, want) in table {
            let read = |path: &Path| {
                let file = files.iter().find(|(name, _)| Path::new(name) == path);
                file.map(|(_, text)| (*text).to_owned())
            };
            assert_eq!(of_group(&read), want, "{files:?}");
        }
    }
}
