//! What a chart depends on and has no copy of in `charts/` is put there, as `helm dependency build` does it, and the versions
//! are kept in its lock. Facts: Helm's `pkg/downloader/manager.go`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::lock::{ChartLock, Locked};
use super::net::Net;
use super::{http, oci, repository};
use crate::chart::ChartFiles;
use crate::names::{check_chart_name, check_chart_version};
use crate::printable::to_yaml;
use helm_template::chart::dependencies::switched_off;
use helm_template::chart::ignore::Rules;
use helm_template::chart::{Chart, Dependency, File, version};

/// How many charts in folders may lead to each other.
const MAX_DEPTH: usize = 8;

/// What was done about a chart's dependencies, a line each.
#[derive(Debug, Default)]
pub struct Notes {
    /// What was fetched.
    pub fetched: Vec<String>,
    /// What wasn't, and isn't needed as things are.
    pub left_out: Vec<String>,
}

/// Adds what is missing to the files of a chart, and what it was to `notes`. What the chart's own values switch off is not
/// missed where it can't be fetched. `folder` is where the chart lies, unless it comes
/// from elsewhere: then it may not ask for folders of this machine.
///
/// # Errors
/// Why something isn't to be had; the chart is then useless.
pub fn complete(
    chart: &mut ChartFiles,
    folder: Option<&Path>,
    net: &Net,
    depth: usize,
    notes: &mut Notes,
) -> anyhow::Result<()> {
    ensure!(
        depth < MAX_DEPTH,
        "charts in folders depend on each other more than {MAX_DEPTH} levels deep"
    );
    let loaded = chart.load()?;
    let declared = &loaded.metadata.dependencies;
    let present = |wanted: &Dependency| {
        let times = declared.iter().filter(|other| other.name == wanted.name).count();
        // Helm contents itself with the name, as long as that says which.
        let fits = |chart: &&Chart| times == 1 || version::compatible(&wanted.version, &chart.metadata.version);
        loaded
            .dependencies
            .iter()
            .filter(|chart| chart.name() == wanted.name)
            .find(fits)
    };
    if declared.iter().all(|wanted| present(wanted).is_some()) {
        return Ok(());
    }
    let resolved = |wanted: &Dependency| {
        check_chart_name(&wanted.name).with_context(|| dependency(wanted))?;
        let repository = net.address(&wanted.repository).with_context(|| dependency(wanted))?;
        Ok(Dependency {
            repository,
            ..wanted.clone()
        })
    };
    let wanted: Vec<Dependency> = declared.iter().map(resolved).collect::<anyhow::Result<_>>()?;
    let lock = ChartLock::read(&chart.files, &loaded.metadata, &wanted)?;
    let off: Vec<String> = switched_off(&loaded)
        .iter()
        .map(|off| off.effective_name().to_owned())
        .collect();
    let mut locked = Vec::new();
    for (at, wanted) in wanted.iter().enumerate() {
        let is_off = off.iter().any(|name| name == wanted.effective_name());
        if is_off && !notes.left_out.is_empty() && present(wanted).is_none() {
            // A user without a network waits for one timeout, not for many.
            notes.left_out.push(left_out(wanted, "no further server is asked"));
            continue;
        }
        let version = match present(wanted) {
            Some(chart) => chart.metadata.version.clone(),
            None => {
                let version = lock.as_ref().and_then(|lock| lock.version(at, &wanted.name));
                let exact = version.unwrap_or(&wanted.version);
                let found = fetch(wanted, exact, folder, net, depth).with_context(|| dependency(wanted));
                let ((name, version), data) = match found {
                    Err(error) if is_off => {
                        notes.left_out.push(left_out(wanted, &format!("{error:#}")));
                        continue;
                    }
                    found => found?,
                };
                check_chart_version(&version).with_context(|| dependency(wanted))?;
                let file = format!("charts/{name}-{version}.tgz");
                notes
                    .fetched
                    .push(format!("{file}: from {}", http::without_password(&wanted.repository)));
                if !chart.files.iter().any(|other| other.name == file) {
                    let data = data.into();
                    chart.files.push(File { name: file, data });
                }
                version
            }
        };
        locked.push(Locked {
            name: wanted.name.clone(),
            repository: wanted.repository.clone(),
            version,
        });
    }
    if lock.is_none() && locked.len() == wanted.len() {
        let lock = to_yaml(&ChartLock::new(&wanted, locked)?)?;
        let name = ChartLock::file_name(&loaded.metadata).to_owned();
        let data = lock.as_str().into();
        chart.files.push(File { name, data });
    }
    Ok(())
}

fn left_out(wanted: &Dependency, why: &str) -> String {
    format!(
        "charts/ has no {} {:?}, which the chart's values switch off: {why}; a release that switches it on stops until `create api` has \
         fetched it",
        wanted.effective_name(),
        wanted.version
    )
}

fn dependency(wanted: &Dependency) -> String {
    format!("dependency {:?} {:?}", wanted.name, wanted.version)
}

/// The archive of a dependency, with its name and its version.
fn fetch(
    wanted: &Dependency,
    version: &str,
    folder: Option<&Path>,
    net: &Net,
    depth: usize,
) -> anyhow::Result<((String, String), Vec<u8>)> {
    let repository = wanted.repository.as_str();
    let data = if repository.is_empty() {
        bail!("it names no repository, and charts/ has no such chart");
    } else if let Some(path) = repository.strip_prefix("file://") {
        let folder = folder.context("a chart that isn't in a folder can't ask for one of this machine")?;
        pack(&folder.join(path), net, depth).with_context(|| repository.to_owned())?
    } else if repository.starts_with(oci::SCHEME) {
        let at = oci::OciReference::parse(&format!("{}/{}", repository.trim_end_matches('/'), wanted.name))?;
        oci::pull(&net.http(repository)?, net.plain_http, &at, version, false)?.data
    } else {
        repository::pull(net, repository, &wanted.name, version, false)?.data
    };
    let metadata = Chart::unpack(&data)?.metadata;
    ensure!(
        metadata.name == wanted.name,
        "there is the chart {:?} instead",
        metadata.name
    );
    ensure!(
        metadata.version == version || version::compatible(version, &metadata.version),
        "there is the version {:?} instead of {version:?}",
        metadata.version
    );
    Ok(((metadata.name, metadata.version), data))
}

/// An archive of the chart in a folder: the same bytes for the same chart.
fn pack(folder: &Path, net: &Net, depth: usize) -> anyhow::Result<Vec<u8>> {
    let mut chart = ChartFiles::read(folder)?;
    let ignored = chart.files.iter().find(|file| file.name == ".helmignore");
    let rules = ignored.map_or(String::new(), |file| {
        String::from_utf8_lossy(file.data.as_bytes()).into_owned()
    });
    let rules = Rules::parse(&rules)?;
    let is_kept = |file: &File| {
        let mut parents = Path::new(&file.name)
            .ancestors()
            .skip(1)
            .filter(|path| *path != Path::new(""));
        !rules.ignores(&file.name, false) && !parents.any(|path| rules.ignores(&path.to_string_lossy(), true))
    };
    chart.files.retain(is_kept);
    complete(&mut chart, Some(folder), net, depth + 1, &mut Notes::default())?;
    chart.files.sort_by(|a, b| a.name.cmp(&b.name));
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for file in &chart.files {
        let mut header = tar::Header::new_gnu();
        header.set_size(file.data.as_bytes().len() as u64);
        header.set_mode(0o644);
        let path: PathBuf = [chart.name.as_str(), file.name.as_str()].iter().collect();
        let added = archive.append_data(&mut header, path, file.data.as_bytes());
        added.map_err(|error| anyhow!("{}: {error}", file.name))?;
    }
    Ok(archive.into_inner()?.finish()?)
}
