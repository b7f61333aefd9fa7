//! A large chart of our own: an umbrella over several web stacks, with many rules and dashboards.

use std::path::Path;
use std::{fs, io};

/// Files of `benches/charts/platform`: how many are made of each, with its number in the place of `#`, and how often what
/// stands between two `@@` is in it.
const FILES: [(&str, usize, usize); 6] = [
    ("Chart.yaml", 1, 6),
    ("values.yaml", 1, 6),
    ("templates/_helpers.tpl", 1, 0),
    ("templates/dashboards.yaml", 1, 0),
    ("templates/rules/group-#.yaml", 40, 12),
    ("dashboards/board-#.json", 25, 24),
];

/// Writes the chart into a folder. `charts` is the folder of the charts that it is made of.
pub fn write(folder: &Path, charts: &Path) -> io::Result<()> {
    fs::create_dir_all(folder.join("templates/rules"))?;
    fs::create_dir_all(folder.join("dashboards"))?;
    for (name, files, times) in FILES {
        let text = fs::read_to_string(charts.join("platform").join(name))?;
        for file in 0..files {
            let text = text.replace("@file", &file.to_string());
            let repeated = |part: &str| -> String { (0..times).map(|n| part.replace("@n", &n.to_string())).collect() };
            let parts = text.split("@@").enumerate();
            let parts = parts.map(|(at, part)| if at % 2 == 0 { part.to_owned() } else { repeated(part) });
            let path = folder.join(name.replace('#', &file.to_string()));
            fs::write(path, parts.collect::<String>())?;
        }
    }
    copy(&charts.join("webstack"), &folder.join("charts/webstack"))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
