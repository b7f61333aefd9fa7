//! The pictures of docs/guides/dashboard.md.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::browser::is_left_out;
use crate::page::World;

/// The largest picture, in bytes.
const LARGEST: u64 = 150_000;
/// Name, width, height, colours, release (empty: the list) and view.
const PICTURES: [(&str, u32, u32, &str, &str, &str); 5] = [
    ("dashboard-list", 1280, 720, "light", "", ""),
    ("dashboard-release", 1280, 860, "light", "checkout", "tree"),
    ("dashboard-timeline", 1280, 860, "dark", "checkout", "timeline"),
    ("dashboard-values", 1280, 720, "dark", "checkout", "values"),
    ("dashboard-phone", 390, 800, "light", "checkout", "tree"),
];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/guides/images/{name}.webp"))
}

#[test]
fn the_docs_have_small_pictures_of_the_page() -> Result<()> {
    if std::env::var_os("UPDATE").is_some() && !is_left_out() {
        let mut world = World::start()?;
        world.fixture.remove(crate::source::HOSTILE);
        std::fs::create_dir_all(file("x").parent().unwrap())?;
        for (name, width, height, scheme, release, view) in PICTURES {
            world.browser.prefer(scheme)?;
            world.browser.resize(width, height, width < 600)?;
            world.open()?;
            if !release.is_empty() {
                world.open_release(release, view)?;
            }
            world.browser.run("document.activeElement.blur()")?;
            world.browser.screenshot(&file(name))?;
        }
        world.check()?;
    }
    for (name, ..) in PICTURES {
        let size = std::fs::metadata(file(name))?.len();
        ensure!((1_000..LARGEST).contains(&size), "{name}: {size} bytes");
    }
    Ok(())
}
