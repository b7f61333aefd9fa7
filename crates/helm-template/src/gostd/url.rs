//! URLs by the rules of Go 1.26's `net/url`.

use std::net::Ipv6Addr;

use go_template::quote::quote_go;

/// A URL in its parts, decoded but for `userinfo` and `query`.
#[derive(Default, Debug)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    pub(crate) opaque: String,
    /// A name, and a password behind a colon.
    pub(crate) userinfo: Option<String>,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) fragment: String,
}

// The characters that are not escaped in each part, besides letters, digits and `-_.~`.
const PATH: &str = "$&+,/:;=@";
const HOST: &str = "!$&'()*+,;=:[]<>\"";
const USER: &str = "$&+,;=";
const FRAGMENT: &str = "$&+,/:;=?@!()*";

fn is_plain(c: char, others: &str) -> bool {
    c.is_ascii_alphanumeric() || "-_.~".contains(c) || others.contains(c)
}

fn escape(text: &str, others: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(char::from(byte), others) {
            out.push(char::from(byte))
        } else {
            out.push_str(&format!("%{byte:02X}"))
        }
    }
    out
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        if *byte != b'%' {
            out.push(*byte);
            rest = after;
            continue;
        }
        let hex = |at: usize| after.get(at).and_then(|b| char::from(*b).to_digit(16));
        let (Some(high), Some(low)) = (hex(0), hex(1)) else {
            let shown = rest.get(..3).unwrap_or(rest);
            return Err(format!("invalid URL escape {}", quote_go(shown)));
        };
        out.push((high * 16 + low) as u8);
        rest = after.get(2..).unwrap_or_default();
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The scheme and what follows its colon; no scheme is empty.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    let is_scheme = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    match text.split_once(':') {
        Some(("", _)) => Err("missing protocol scheme".to_owned()),
        Some((scheme, rest)) if is_scheme(scheme) => Ok((scheme, rest)),
        _ => Ok(("", text)),
    }
}

/// Nothing, or a colon and digits.
fn check_port(port: &str) -> Result<(), String> {
    let digits = port.strip_prefix(':').unwrap_or(port);
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        Ok(())
    } else {
        Err(format!("invalid port {} after host", quote_go(port)))
    }
}

fn check_host(scheme: &str, host: &str) -> Result<(), String> {
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.rsplit_once(']').ok_or("missing ']' in host")?;
        check_port(port)?;
        return match address.parse::<Ipv6Addr>() {
            Ok(_) => Ok(()),
            Err(_) => Err("invalid IP-literal".to_owned()),
        };
    }
    // Databases have lists of hosts with ports, so elsewhere only the last colon counts.
    let colon = match scheme {
        "http" | "https" => host.find(':'),
        _ => host.rfind(':'),
    };
    check_port(colon.and_then(|colon| host.get(colon..)).unwrap_or_default())?;
    match host.chars().find(|c| c.is_ascii() && !is_plain(*c, HOST)) {
        Some(c) => Err(format!("invalid character {} in host name", quote_go(c.to_string()))),
        None => Ok(()),
    }
}

/// Checks name and password, and encodes them as Go does.
fn userinfo(text: &str) -> Result<String, String> {
    if !text.chars().all(|c| is_plain(c, "!$&'()*+,;=%@:")) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let encoded = |part: &str| Ok::<_, String>(escape(&unescape(part)?, USER));
    Ok(match text.split_once(':') {
        Some((name, password)) => format!("{}:{}", encoded(name)?, encoded(password)?),
        None => encoded(text)?,
    })
}

impl Url {
    /// `url.Parse`. An error is the text of Go's error.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Url::default();
        url.read(before)
            .map_err(|error| format!("parse {}: {error}", quote_go(before)))?;
        url.fragment = unescape(fragment).map_err(|error| format!("parse {}: {error}", quote_go(text)))?;
        Ok(url)
    }

    fn read(&mut self, text: &str) -> Result<(), String> {
        if text.contains(|c: char| c.is_ascii_control()) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (scheme, rest) = split_scheme(text)?;
        self.scheme = scheme.to_ascii_lowercase();
        let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        self.query = query.to_owned();
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                self.opaque = rest.to_owned();
                return Ok(());
            }
            if has_colon_first(rest) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        if (!scheme.is_empty() || !rest.starts_with("///"))
            && let Some(authority) = rest.strip_prefix("//")
        {
            let end = authority.find('/').unwrap_or(authority.len());
            let (authority, path) = authority.split_at(end);
            rest = path;
            let (user, host) = match authority.rsplit_once('@') {
                Some((user, host)) => (Some(user), host),
                None => (None, authority),
            };
            check_host(&self.scheme, host)?;
            self.host = host.to_owned();
            self.userinfo = user.map(userinfo).transpose()?;
        }
        self.path = unescape(rest)?;
        Ok(())
    }

    /// `URL.Hostname`: the host without port and brackets.
    pub(crate) fn hostname(&self) -> &str {
        let host = match self.host.rsplit_once(':') {
            Some((name, port)) if check_port(port).is_ok() => name,
            _ => &self.host,
        };
        host.strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .unwrap_or(host)
    }

    /// `URL.String`.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out = format!("{}:", self.scheme);
        }
        if self.opaque.is_empty() {
            self.push_hierarchy(&mut out);
        } else {
            out.push_str(&self.opaque);
        }
        for (sign, part) in [('?', &self.query), ('#', &escape(&self.fragment, FRAGMENT))] {
            if !part.is_empty() {
                out.push(sign);
                out.push_str(part);
            }
        }
        out
    }

    fn push_hierarchy(&self, out: &mut String) {
        let has_path = !self.scheme.is_empty() && !self.path.is_empty();
        if !self.host.is_empty() || self.userinfo.is_some() || has_path {
            out.push_str("//");
        }
        if let Some(userinfo) = &self.userinfo {
            out.push_str(userinfo);
            out.push('@');
        }
        out.push_str(&escape(&self.host, HOST));
        if !self.path.is_empty() && !self.path.starts_with('/') && !self.host.is_empty() {
            out.push('/');
        }
        // It would read as a scheme.
        if out.is_empty() && has_colon_first(&self.path) {
            out.push_str("./");
        }
        out.push_str(&escape(&self.path, PATH));
    }
}

/// Whether the first segment of a path has a colon.
fn has_colon_first(path: &str) -> bool {
    path.split('/').next().is_some_and(|segment| segment.contains(':'))
}
