//! Drives headless Chromium by the DevTools protocol over pipes, which needs no further library: one JSON message, then a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use data_encoding::BASE64;
use serde_json::{Value, json};

/// How long the browser may take for an answer, and a page for what a test awaits.
const TIMEOUT: Duration = Duration::from_secs(30);

/// True if `CHROMIUM=off` leaves the tests with a browser out.
pub fn is_left_out() -> bool {
    let is_off = std::env::var("CHROMIUM").is_ok_and(|value| value == "off");
    if is_off {
        eprintln!("chromium: left out (CHROMIUM=off)");
    }
    is_off
}

/// A browser with one page. Killed when it is dropped.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: String,
    last_id: u64,
    /// Console errors, violations of the policy, failed requests and script errors since the last [`Browser::take_problems`].
    problems: Vec<String>,
    /// Addresses that the page has requested.
    requests: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    pub fn start() -> Result<Self> {
        let profile = tempfile::tempdir()?;
        let program = std::env::var("CHROMIUM")
            .ok()
            .filter(|path| !path.is_empty() && path != "on");
        let program = program.unwrap_or_else(|| "chromium".to_owned());
        let mut command = Command::new("sh");
        // Chromium reads the descriptor 3 and writes 4.
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh", &program]);
        command.args([
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-first-run",
            "--disable-gpu",
            "--hide-scrollbars",
        ]);
        command.args([
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ]);
        command.args([
            "--disable-extensions",
            "--no-default-browser-check",
            "--lang=en-US",
            "--force-device-scale-factor=1",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        // In a container there are neither the namespaces for its sandbox nor another user than root.
        command.args(["--no-sandbox", "about:blank"]).env("TZ", "UTC");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = child.stdin.take().context("no input")?;
        let mut output = BufReader::new(child.stdout.take().context("no output")?);
        let (sender, messages) = channel();
        spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else {
                    break;
                };
                if sender.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Browser {
            child,
            input,
            messages,
            session: String::new(),
            last_id: 0,
            problems: Vec::new(),
            requests: Vec::new(),
            _profile: profile,
        };
        let created = browser
            .call("Target.createTarget", &json!({"url": "about:blank"}))
            .context(
                "chromium: install your system's package chromium, or set CHROMIUM=off to leave these tests out",
            )?;
        let attached = json!({"targetId": created["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", &attached)?;
        browser.session = attached["sessionId"].as_str().context("no session")?.to_owned();
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), &json!({}))?;
        }
        browser.resize(1280, 800, false)?;
        Ok(browser)
    }

    /// Sends a command and waits for its result.
    pub fn call(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.input.write_all(message.to_string().as_bytes())?;
        self.input.write_all(&[0])?;
        self.input.flush()?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self
                .messages
                .recv_timeout(left)
                .with_context(|| format!("{method}: no answer"))?;
            if message["id"] == id {
                ensure!(message["error"].is_null(), "{method}: {}", message["error"]);
                return Ok(message["result"].clone());
            }
            self.take(&message);
        }
    }

    fn take(&mut self, message: &Value) {
        let parameters = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => self
                .problems
                .push(format!("exception: {}", parameters["exceptionDetails"])),
            "Runtime.consoleAPICalled"
                if ["error", "warning", "assert"]
                    .iter()
                    .any(|kind| parameters["type"] == *kind) =>
            {
                self.problems.push(format!("console: {}", parameters["args"]));
            }
            "Log.entryAdded"
                if ["error", "warning"]
                    .iter()
                    .any(|level| parameters["entry"]["level"] == *level) =>
            {
                let entry = &parameters["entry"];
                self.problems.push(format!("log: {} {}", entry["text"], entry["url"]));
            }
            "Page.javascriptDialogOpening" => self.problems.push(format!("dialog: {}", parameters["message"])),
            "Network.requestWillBeSent" => {
                self.requests
                    .push(parameters["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }

    /// Opens an address. Does not wait for anything but the document.
    pub fn open(&mut self, address: &str) -> Result<()> {
        // A change of the fragment alone would not load the page again.
        self.call("Page.navigate", &json!({"url": "about:blank"}))?;
        self.call("Page.navigate", &json!({"url": address}))?;
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")
    }

    pub fn reload(&mut self) -> Result<()> {
        self.run("window.isOld = true")?;
        self.call("Page.reload", &json!({}))?;
        self.until("document.readyState === 'complete' && !window.isOld")
    }

    /// The value of an expression.
    pub fn run(&mut self, expression: &str) -> Result<Value> {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", &parameters)?;
        ensure!(
            result["exceptionDetails"].is_null(),
            "{expression}: {}",
            result["exceptionDetails"]
        );
        Ok(result["result"]["value"].clone())
    }

    /// The value of an expression as text.
    pub fn text(&mut self, expression: &str) -> Result<String> {
        let value = self.run(expression)?;
        Ok(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while self.run(&format!("Boolean({expression})"))? != true {
            if Instant::now() > deadline {
                let shown = self.text("document.body.innerText.slice(0, 3000)")?;
                bail!(
                    "not so after {TIMEOUT:?}: {expression}\n{:?}\nthe page shows:\n{shown}",
                    self.problems
                );
            }
            sleep(Duration::from_millis(30));
        }
        Ok(())
    }

    /// Presses a key: a letter, or `Enter`, `Escape`, `Tab`, `ArrowDown` and so on.
    pub fn press(&mut self, key: &str) -> Result<()> {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            letter if letter.chars().count() == 1 => letter,
            _ => "",
        };
        let mut event = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code, "text": text});
        self.call("Input.dispatchKeyEvent", &event)?;
        event["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", &event)?;
        Ok(())
    }

    pub fn type_text(&mut self, text: &str) -> Result<()> {
        self.call("Input.insertText", &json!({"text": text})).map(drop)
    }

    pub fn resize(&mut self, width: u32, height: u32, is_phone: bool) -> Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
        self.call("Emulation.setDeviceMetricsOverride", &size).map(drop)
    }

    /// Sets what the system prefers: `light` or `dark`.
    pub fn prefer(&mut self, scheme: &str) -> Result<()> {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &features).map(drop)
    }

    /// Writes a picture of the page as it is shown.
    pub fn screenshot(&mut self, file: &Path) -> Result<()> {
        let picture = self.call("Page.captureScreenshot", &json!({"format": "webp", "quality": 82}))?;
        let picture = BASE64.decode(picture["data"].as_str().context("no picture")?.as_bytes())?;
        std::fs::write(file, picture).with_context(|| file.display().to_string())
    }

    /// Returns what went wrong since the last call, and requests to other places than `origin`.
    pub fn take_problems(&mut self, origin: &str) -> Result<Vec<String>> {
        // What was sent before has arrived then.
        self.run("0")?;
        let is_foreign = |url: &&String| !url.starts_with(origin) && !url.starts_with("data:") && *url != "about:blank";
        let foreign: Vec<String> = self
            .requests
            .iter()
            .filter(is_foreign)
            .map(|url| format!("request: {url}"))
            .collect();
        self.requests.clear();
        Ok(std::mem::take(&mut self.problems).into_iter().chain(foreign).collect())
    }
}
