//! What a person sees and does.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, ensure};
use chartwright_core::report::ReportFacts;
use chartwright_operator::dashboard::{DashboardAccess, routes};
use chartwright_operator::telemetry::server::{BindAddress, Servers, dashboard_site};
use serde_json::Value;

use crate::browser::{Browser, is_left_out};
use crate::source::{ATTACKS, Fixture, HOSTILE, kind, resource};

/// The page in a browser.
pub struct World {
    pub fixture: Arc<Fixture>,
    pub browser: Browser,
    pub address: SocketAddr,
    token: String,
    _servers: Servers,
}

impl World {
    pub fn start() -> Result<Self> {
        let fixture = Fixture::new();
        let (access, token) = DashboardAccess::localhost().map_err(|error| anyhow::anyhow!("{error}"))?;
        let mut servers = Servers::default();
        let address = BindAddress::At {
            host: "127.0.0.1".to_owned(),
            port: 0,
        };
        let address = servers.serve("--port", &address, dashboard_site(routes(fixture.clone(), access)))?;
        Ok(World {
            fixture,
            browser: Browser::start()?,
            address: address.expect("it is on"),
            token,
            _servers: servers,
        })
    }

    /// Opens the page with the token, as the command prints it.
    pub fn open(&mut self) -> Result<()> {
        let address = format!("http://{}/dashboard#token={}", self.address, self.token);
        self.browser.open(&address)?;
        self.browser
            .until("document.querySelectorAll('.list tbody tr').length > 0")?;
        self.browser
            .until("document.getElementById('live').textContent === 'live'")
    }

    /// Opens a view of a release in the namespace `shop`.
    pub fn open_release(&mut self, name: &str, view: &str) -> Result<()> {
        let hash = format!("#/release?kind=WebApp.apps.example.com&namespace=shop&name={name}&view={view}");
        self.browser.run(&format!("location.hash = {hash:?}"))?;
        let script = format!(
            "document.querySelector('h1')?.textContent === {name:?} && document.querySelector('.facts') && \
             document.getElementById('tab-{view}')?.getAttribute('aria-selected') === 'true' && \
             !document.getElementById('panel').textContent.startsWith('Reading')"
        );
        self.browser.until(&script)
    }

    /// Checks that nothing went wrong in the browser, and that the page stayed where it comes from.
    pub fn check(&mut self) -> Result<()> {
        let problems = self.browser.take_problems(&format!("http://{}/", self.address))?;
        ensure!(problems.is_empty(), "{problems:#?}");
        Ok(())
    }
}

pub const VIEWS: [&str; 7] = ["tree", "timeline", "history", "drift", "values", "changes", "notes"];

/// The names in the list, in their order.
fn names(browser: &mut Browser) -> Result<String> {
    browser.text("[...document.querySelectorAll('.list td.name')].map((cell) => cell.textContent).join(' ')")
}

fn focused(browser: &mut Browser) -> Result<String> {
    browser.text("document.activeElement.textContent")
}

#[test]
fn releases_are_found_by_search_filters_pages_and_keys() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let mut world = World::start()?;
    world.open()?;
    let browser = &mut world.browser;
    let hash = browser.text("location.hash")?;
    ensure!(hash == "#/", "the token stays in the address: {hash}");
    ensure!(browser.text("document.getElementById('heading').textContent")? == "operator shop-operator");
    // The worst first.
    let first = names(browser)?;
    ensure!(
        first.starts_with("search mail hostile checkout payments events"),
        "{first}"
    );
    ensure!(browser.text("document.getElementById('range').textContent")? == "1-50 of 128");

    browser.press("n")?;
    browser.until("document.getElementById('range').textContent === '51-100 of 128'")?;
    browser.press("n")?;
    browser.until("document.getElementById('range').textContent === '101-128 of 128'")?;
    ensure!(browser.run("document.getElementById('next').disabled")? == true);
    browser.press("p")?;
    browser.until("document.getElementById('range').textContent === '51-100 of 128'")?;

    browser.press("/")?;
    ensure!(browser.text("document.activeElement.id")? == "search");
    browser.type_text("team-3 APP")?;
    browser.until("document.getElementById('range').textContent === '1-15 of 15 (128 in all)'")?;
    browser.press("ArrowDown")?;
    let first = focused(browser)?;
    browser.press("j")?;
    let second = focused(browser)?;
    ensure!(
        first.starts_with("app-") && second.starts_with("app-") && first != second,
        "{first} {second}"
    );
    let outline = browser.text("getComputedStyle(document.activeElement).outlineStyle")?;
    ensure!(outline == "solid", "the focus is not visible: {outline}");
    browser.press("k")?;
    ensure!(focused(browser)? == first);
    browser.press("Escape")?;
    browser.until("document.getElementById('range').textContent === '1-50 of 128'")?;

    browser.run("document.querySelector('.chips [data-state=progressing]').click()")?;
    browser.until("document.getElementById('range').textContent.startsWith('1-2 of 2 ')")?;
    ensure!(names(browser)? == "checkout payments", "{}", names(browser)?);
    ensure!(
        browser.text("document.querySelector('.chips [data-state=progressing]').getAttribute('aria-pressed')")?
            == "true"
    );
    browser.press("Escape")?;
    browser.run(
        "(() => { const select = document.querySelector('select'); select.value = 'Postgres.apps.example.com'; \
         select.dispatchEvent(new Event('change')); })()",
    )?;
    browser.until("document.querySelectorAll('.list tbody tr').length === 1")?;
    ensure!(names(browser)? == "orders-db");
    browser.press("Escape")?;
    browser.until("document.querySelectorAll('.list tbody tr').length === 50")?;
    browser.run("document.querySelector('th.name button').click()")?;
    browser.until("document.querySelector('.list td.name').textContent === 'app-000'")?;

    // Enter opens, Esc leads back to the same list.
    browser.press("/")?;
    browser.type_text("checkout")?;
    browser.until("document.querySelectorAll('.list tbody tr').length === 1")?;
    browser.press("Enter")?;
    browser.press("Enter")?;
    browser.until("document.querySelector('.facts')")?;
    browser.press("Escape")?;
    browser.until("document.querySelector('.list tbody tr')")?;
    ensure!(browser.text("document.getElementById('search').value")? == "checkout");
    browser.press("?")?;
    ensure!(browser.run("document.getElementById('keys').open")? == true);
    world.check()
}

#[test]
fn a_release_shows_its_cause_members_and_views() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let mut world = World::start()?;
    world.open()?;
    world.open_release("checkout", "tree")?;
    let browser = &mut world.browser;
    let causes = browser.text("document.querySelector('.causes').innerText")?;
    ensure!(
        causes.contains("ImagePullBackOff") && causes.contains("kubectl "),
        "{causes}"
    );
    let tree = browser.text("document.getElementById('panel').innerText")?;
    for part in [
        "WAVE 1",
        "ConfigMap",
        "checkout-7c9f-l5n7v",
        "HOOKS",
        "checkout-smoke-test",
    ] {
        ensure!(tree.contains(part), "{part}: {tree}");
    }
    // The unhealthy branch is open. Keys walk through it and close it.
    browser.press("j")?;
    ensure!(focused(browser)?.contains("checkout-settings"), "{}", focused(browser)?);
    for _ in 0..2 {
        browser.press("j")?;
    }
    ensure!(focused(browser)?.contains("Deployment"), "{}", focused(browser)?);
    let shown = "[...document.querySelectorAll('#panel [data-node]')].filter((node) => node.checkVisibility()).length";
    let before = browser.run(shown)?.as_u64().unwrap();
    browser.press("Enter")?;
    browser.until(&format!("{shown} === {}", before - 4))?;

    for (number, view, parts) in [
        (
            2,
            "timeline",
            &[
                "pre-upgrade",
                "checkout-migrate",
                "48s",
                "backup",
                "on schedule",
                "0 3 * * * Europe/Berlin",
                "503",
            ][..],
        ),
        (
            3,
            "history",
            &[
                "webapp 2.2.1",
                "superseded",
                "failed",
                "not ready within 5m",
                "kept: a rollback can run it",
            ],
        ),
        (4, "drift", &["Contested", "kubectl-scale"]),
        (
            5,
            "values",
            &[
                "database.password",
                "masked",
                "Secret shop/checkout-db",
                "\"v1.4.2\"",
                "watch values",
            ],
        ),
        (
            6,
            "changes",
            &[
                "1 changed, 1 refused",
                "Deployment.apps shop/checkout",
                "+image: v2",
                "pods restart",
                "pre-upgrade",
                "Ingress.networking.k8s.io shop/checkout",
                "Invalid: spec.rules",
            ],
        ),
        (
            7,
            "notes",
            &["Run a backup: chartwright plan run webapp checkout backup"],
        ),
        (1, "tree", &["StatefulSet"]),
    ] {
        browser.press(&number.to_string())?;
        browser.until(&format!(
            "document.getElementById('tab-{view}').getAttribute('aria-selected') === 'true'"
        ))?;
        for part in parts {
            browser.until(&format!(
                "document.getElementById('panel').innerText.includes({part:?})"
            ))?;
        }
        ensure!(browser.text("location.hash")?.contains("name=checkout"));
    }
    browser.press("5")?;
    browser.until("document.querySelector('#panel input')")?;
    browser.press("/")?;
    browser.type_text("image")?;
    browser.until("document.querySelectorAll('.values tbody tr').length === 2")?;
    browser.press("Escape")?;
    // Tabs move with the arrows.
    browser.run("document.getElementById('tab-values').focus()")?;
    browser.press("ArrowRight")?;
    browser.until("document.activeElement.id === 'tab-changes'")?;
    browser.press("Escape")?;
    browser.until("document.querySelector('.list')")?;

    world.open_release("search", "tree")?;
    let place = "webapp/templates/deployment.yaml:24:18";
    let script = format!("[...document.querySelectorAll('.place')].some((place) => place.textContent === {place:?})");
    world.browser.until(&script)?;
    world.check()
}

/// Changes arrive without a reload: a mark in the window would be lost.
#[test]
fn changes_are_shown_without_a_reload() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let mut world = World::start()?;
    world.open()?;
    world.browser.run("window.isSame = true")?;
    let catalog = resource(
        ("shop", "catalog"),
        "False",
        "MemberFailed",
        "Deployment catalog: no pod is ready",
        2_000_000,
    );
    world.fixture.put(ReportFacts::new(kind("WebApp"), catalog.clone()));
    let row = "[...document.querySelectorAll('.list tbody tr')].find((row) => row.innerText.includes('catalog'))";
    world.browser.until(&format!("{row}?.innerText.includes('failing')"))?;
    world.open_release("catalog", "tree")?;
    world
        .browser
        .until("document.querySelector('.title').innerText.includes('failing')")?;
    let mut better = catalog;
    better["status"]["conditions"][0]["status"] = "True".into();
    world.fixture.put(ReportFacts::new(kind("WebApp"), better.clone()));
    world
        .browser
        .until("document.querySelector('.title').innerText.includes('ready')")?;
    world
        .browser
        .until("document.getElementById('announcer').textContent === 'catalog is ready'")?;
    world.browser.until("document.title.startsWith('catalog (ready)')")?;
    world.fixture.remove("catalog");
    world.browser.until("document.getElementById('gone')")?;
    world.fixture.put(ReportFacts::new(kind("WebApp"), better));
    world
        .browser
        .until("!document.getElementById('gone') && document.querySelector('.title')")?;
    ensure!(world.browser.run("window.isSame")? == true);
    world.check()
}

#[test]
fn hostile_texts_stay_texts() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let mut world = World::start()?;
    world.open()?;
    let markup = "document.querySelectorAll('main img, main script, main svg, main iframe, main style, main object, \
        main a[href^=javascript], [onerror], [onload]').length";
    let check = |world: &mut World, place: &str| -> Result<()> {
        ensure!(world.browser.run(markup)? == 0, "{place}");
        ensure!(
            world.browser.text("typeof window.attacked")? == "undefined",
            "{place}: a script ran"
        );
        world.check()
    };
    world.browser.until(&format!(
        "document.querySelector('.list').innerText.includes({:?})",
        ATTACKS[0]
    ))?;
    check(&mut world, "list")?;
    for view in VIEWS {
        world.open_release(HOSTILE, view)?;
        if view == "notes" {
            let notes = world.browser.text("document.querySelector('pre').textContent")?;
            ensure!(notes.contains(ATTACKS[1]), "{notes}");
            // What turns or hides text is shown as its number.
            ensure!(notes.contains("\\u202e") && notes.contains("\\u001b[31m"), "{notes}");
        }
        check(&mut world, view)?;
    }
    // Attacks in the address.
    for attack in ATTACKS {
        let script = format!("location.hash = '#/release?kind=A.b&name=' + encodeURIComponent({attack:?})");
        world.browser.run(&script)?;
        world.browser.until("document.getElementById('gone')")?;
        check(&mut world, attack)?;
        world
            .browser
            .run(&format!("location.hash = '#/?q=' + encodeURIComponent({attack:?})"))?;
        world.browser.until("document.getElementById('search')?.value")?;
        check(&mut world, attack)?;
    }
    // The policy holds: a script that got into the page all the same would not run.
    world.browser.run(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.attacked=1'}))",
    )?;
    ensure!(world.browser.text("typeof window.attacked")? == "undefined");
    let problems = world.browser.take_problems("http://")?;
    ensure!(
        problems
            .iter()
            .any(|problem| problem.contains("Content Security Policy")),
        "{problems:?}"
    );
    Ok(())
}

/// The lowest contrast of a text, and the text.
const CONTRAST: &str = r"(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => { const part = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b); };
  const ground = (element) => { for (let at = element; at; at = at.parentElement) { const color = rgb(getComputedStyle(at).backgroundColor); if (color[3] === 255) return color; } return rgb('white'); };
  let lowest = [99, ''];
  for (const element of document.body.querySelectorAll('*')) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join('');
    if (!text || !element.checkVisibility() || element.matches('.unseen, .skip, option, :disabled')) continue;
    const [one, other] = [light(rgb(getComputedStyle(element).color)), light(ground(element))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < lowest[0]) lowest = [ratio, text];
  }
  return lowest;
})()";

#[test]
fn both_colour_schemes_are_legible_and_can_be_switched() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let mut world = World::start()?;
    let page = "getComputedStyle(document.body).backgroundColor";
    let (light, dark) = ("rgb(250, 250, 248)", "rgb(18, 20, 22)");
    for (scheme, expected) in [("light", light), ("dark", dark)] {
        world.browser.prefer(scheme)?;
        world.open()?;
        ensure!(world.browser.text(page)? == expected, "{}", world.browser.text(page)?);
        check_contrast(&mut world, scheme, "list")?;
        for view in VIEWS {
            world.open_release("checkout", view)?;
            check_contrast(&mut world, scheme, view)?;
        }
    }
    // The switch goes from auto to light to dark, and is remembered.
    for expected in [light, dark] {
        world.browser.press("t")?;
        ensure!(world.browser.text(page)? == expected);
        world.browser.reload()?;
        world.browser.until("document.querySelector('.facts')")?;
        ensure!(world.browser.text(page)? == expected, "after a reload");
    }
    world.browser.run("document.getElementById('theme').click()")?;
    ensure!(world.browser.text("document.getElementById('theme').textContent")? == "auto");
    world.check()
}

fn check_contrast(world: &mut World, scheme: &str, view: &str) -> Result<()> {
    let lowest = world.browser.run(CONTRAST)?;
    ensure!(
        lowest[0].as_f64().is_some_and(|ratio| (4.5..90.0).contains(&ratio)),
        "{scheme} {view}: {lowest}"
    );
    Ok(())
}

#[test]
fn a_phone_shows_everything_without_scrolling_sideways() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let mut world = World::start()?;
    world.browser.resize(360, 740, true)?;
    world.open()?;
    let fits = "document.documentElement.scrollWidth <= innerWidth";
    let widest = "[...document.querySelectorAll('main *')].filter((element) => element.getBoundingClientRect().right > innerWidth + 1 && \
        !element.closest('.tabs')).map((element) => element.outerHTML.slice(0, 200)).slice(0, 3)";
    ensure!(world.browser.run(fits)? == true, "list: {}", world.browser.run(widest)?);
    for name in ["checkout", "search", HOSTILE] {
        for view in VIEWS {
            world.open_release(name, view)?;
            ensure!(
                world.browser.run(fits)? == true,
                "{name} {view}: {}",
                world.browser.run(widest)?
            );
        }
    }
    world.check()
}

#[test]
fn the_page_has_landmarks_and_names_for_everything_that_can_be_used() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let mut world = World::start()?;
    world.open()?;
    for place in ["", "tree", "timeline", "values", "changes"] {
        if !place.is_empty() {
            world.open_release("checkout", place)?;
        }
        let tree = world
            .browser
            .call("Accessibility.getFullAXTree", &serde_json::json!({}))?;
        let nodes: Vec<&Value> = tree["nodes"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|node| node["ignored"] != true)
            .collect();
        let roles: Vec<&str> = nodes.iter().filter_map(|node| node["role"]["value"].as_str()).collect();
        let wanted = if place.is_empty() {
            &[
                "banner",
                "main",
                "navigation",
                "search",
                "heading",
                "table",
                "columnheader",
                "status",
            ][..]
        } else {
            &[
                "banner",
                "main",
                "navigation",
                "heading",
                "tablist",
                "tab",
                "tabpanel",
                "status",
            ]
        };
        for role in wanted {
            ensure!(roles.contains(role), "{place:?}: no {role}: {roles:?}");
        }
        let used = [
            "button",
            "link",
            "textbox",
            "searchbox",
            "combobox",
            "tab",
            "tabpanel",
            "table",
            "tablist",
        ];
        for node in &nodes {
            let role = node["role"]["value"].as_str().unwrap_or_default();
            let name = node["name"]["value"].as_str().unwrap_or_default();
            ensure!(
                !used.contains(&role) || !name.is_empty(),
                "{place:?}: a {role} without a name: {node}"
            );
        }
    }
    ensure!(world.browser.text("document.documentElement.lang")? == "en");
    world.check()
}

#[test]
fn without_a_token_the_page_shows_a_way_to_sign_in_and_no_data() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let mut world = World::start()?;
    let address = format!("http://{}/dashboard", world.address);
    let token = world.token.clone();
    let browser = &mut world.browser;
    browser.open(&address)?;
    browser.until("document.getElementById('token')")?;
    ensure!(!browser.text("document.body.innerText")?.contains("checkout"));
    browser.type_text("wrong")?;
    browser.press("Enter")?;
    browser.until("document.getElementById('token') && document.getElementById('token').value === ''")?;
    browser.until("document.activeElement.id === 'token'")?;
    browser.type_text(&token)?;
    browser.press("Enter")?;
    browser.until("document.querySelectorAll('.list tbody tr').length === 50")?;
    // The token lives as long as the tab.
    browser.reload()?;
    browser.until("document.querySelectorAll('.list tbody tr').length === 50")?;
    ensure!(
        browser.text("localStorage.length + document.cookie")? == "1",
        "only the colours are kept"
    );
    browser.run("document.getElementById('sign-out').click()")?;
    browser.until("document.getElementById('token')")?;
    ensure!(browser.text("sessionStorage.length")? == "0");
    let problems = browser.take_problems(&address)?;
    ensure!(problems.iter().all(|problem| problem.contains("401")), "{problems:?}");
    Ok(())
}
