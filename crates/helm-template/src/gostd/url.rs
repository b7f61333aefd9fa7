//! URLs by the rules of Go 1.26's `net/url`.

use std::net::Ipv6Addr;

use go_template::quote::quote_go;

/// A URL in its parts, decoded.
#[derive(Default, Debug)]
pub(crate) struct Url {
    pub(crate) scheme: Vec<u8>,
    pub(crate) opaque: Vec<u8>,
    pub(crate) user: Option<User>,
    pub(crate) host: Vec<u8>,
    pub(crate) path: Vec<u8>,
    pub(crate) query: Vec<u8>,
    pub(crate) fragment: Vec<u8>,
}

/// Name and password, decoded.
#[derive(Debug)]
pub(crate) struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

/// Which part a text is of: it decides what has to be escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    User,
    Fragment,
}

fn must_escape(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return false;
    }
    match part {
        Part::Host => !b"!$&'()*+,;=:[]<>\"".contains(&byte),
        Part::Path => !b"$&+,/:;=@".contains(&byte),
        Part::User => !b"$&+,;=".contains(&byte),
        Part::Fragment => !b"$&+,/:;=?@!()*".contains(&byte),
    }
}

fn escape(text: &[u8], part: Part) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if must_escape(*byte, part) {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(*byte);
        }
    }
    out
}

fn unescape(text: &[u8], part: Part) -> Result<Vec<u8>, String> {
    let bad_escape = |at: usize| {
        let shown = text.get(at..).unwrap_or(&[]);
        format!("invalid URL escape {}", quote_go(shown.get(..3).unwrap_or(shown)))
    };
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        if *byte == b'%' {
            let hex = |at: usize| text.get(at).and_then(|b| char::from(*b).to_digit(16));
            let (Some(high), Some(low)) = (hex(at + 1), hex(at + 2)) else {
                return Err(bad_escape(at));
            };
            let decoded = (high * 16 + low) as u8;
            // In a host only bytes beyond ASCII may be escaped.
            if part == Part::Host && high < 8 && decoded != b'%' {
                return Err(bad_escape(at));
            }
            out.push(decoded);
            at += 3;
            continue;
        }
        if part == Part::Host && *byte < 0x80 && must_escape(*byte, part) {
            return Err(format!("invalid character {} in host name", quote_go([*byte])));
        }
        out.push(*byte);
        at += 1;
    }
    Ok(out)
}

fn cut(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|b| *b == separator) {
        Some(at) => (text.get(..at).unwrap_or(&[]), text.get(at + 1..)),
        None => (text, None),
    }
}

/// The scheme and what follows its colon; no scheme is empty.
fn split_scheme(text: &[u8]) -> Result<(&[u8], &[u8]), String> {
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((text.get(..at).unwrap_or(&[]), text.get(at + 1..).unwrap_or(&[]))),
            _ => break,
        }
    }
    Ok((&[], text))
}

/// Nothing, or a colon and digits.
fn is_port(text: &[u8]) -> bool {
    text.split_first()
        .is_none_or(|(colon, digits)| *colon == b':' && digits.iter().all(u8::is_ascii_digit))
}

fn bad_port(port: &[u8]) -> String {
    format!("invalid port {} after host", quote_go(port))
}

fn parse_host(scheme: &[u8], host: &[u8]) -> Result<Vec<u8>, String> {
    match host.iter().rposition(|b| *b == b'[') {
        Some(0) => return parse_bracketed(host),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    let web = matches!(scheme, b"http" | b"https");
    // Databases have lists of hosts with ports, so elsewhere only the last colon counts.
    let colon = if web {
        host.iter().position(|b| *b == b':')
    } else {
        host.iter().rposition(|b| *b == b':')
    };
    let port = colon.and_then(|colon| host.get(colon..)).unwrap_or(&[]);
    if !is_port(port) {
        return Err(bad_port(port));
    }
    unescape(host, Part::Host)
}

fn parse_bracketed(host: &[u8]) -> Result<Vec<u8>, String> {
    let Some(close) = host.iter().rposition(|b| *b == b']') else {
        return Err("missing ']' in host".to_owned());
    };
    let port = host.get(close + 1..).unwrap_or(&[]);
    if !is_port(port) {
        return Err(bad_port(port));
    }
    let name = host.get(1..close).unwrap_or(&[]);
    match String::from_utf8_lossy(name).parse::<Ipv6Addr>() {
        Ok(_) => Ok(host.to_vec()),
        Err(_) => Err("invalid IP-literal".to_owned()),
    }
}

fn parse_user(text: &[u8]) -> Result<User, String> {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(b);
    if !text.iter().all(allowed) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) = cut(text, b':');
    Ok(User {
        name: unescape(name, Part::User)?,
        password: password.map(|password| unescape(password, Part::User)).transpose()?,
    })
}

impl User {
    /// `Userinfo.String`: encoded.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut out = escape(&self.name, Part::User);
        if let Some(password) = &self.password {
            out.push(b':');
            out.extend(escape(password, Part::User));
        }
        out
    }
}

impl Url {
    /// `url.Parse`. An error is the text of Go's error.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let (before, fragment) = cut(text, b'#');
        let mut url = Url::default();
        url.read(before)
            .map_err(|error| format!("parse {}: {error}", quote_go(before)))?;
        if let Some(fragment) = fragment.filter(|fragment| !fragment.is_empty()) {
            url.fragment =
                unescape(fragment, Part::Fragment).map_err(|error| format!("parse {}: {error}", quote_go(text)))?;
        }
        Ok(url)
    }

    fn read(&mut self, text: &[u8]) -> Result<(), String> {
        if text.iter().any(|b| *b < b' ' || *b == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (scheme, rest) = split_scheme(text)?;
        self.scheme = scheme.to_ascii_lowercase();
        let (mut rest, query) = cut(rest, b'?');
        self.query = query.unwrap_or(&[]).to_vec();
        if !rest.starts_with(b"/") {
            if !self.scheme.is_empty() {
                self.opaque = rest.to_vec();
                return Ok(());
            }
            if cut(rest, b'/').0.contains(&b':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        if (!self.scheme.is_empty() || !rest.starts_with(b"///"))
            && let Some(authority) = rest.strip_prefix(b"//")
        {
            let end = authority.iter().position(|b| *b == b'/').unwrap_or(authority.len());
            let (authority, path) = authority.split_at(end);
            rest = path;
            let at = authority.iter().rposition(|b| *b == b'@');
            let host = at.map_or(authority, |at| authority.get(at + 1..).unwrap_or(&[]));
            self.host = parse_host(&self.scheme, host)?;
            self.user = at.and_then(|at| authority.get(..at)).map(parse_user).transpose()?;
        }
        self.path = unescape(rest, Part::Path)?;
        Ok(())
    }

    /// `URL.Hostname`: the host without port and brackets.
    pub(crate) fn hostname(&self) -> &[u8] {
        let host = self.host.as_slice();
        let colon = host.iter().rposition(|b| *b == b':');
        let host = match colon.and_then(|colon| host.split_at_checked(colon)) {
            Some((name, port)) if is_port(port) => name,
            _ => host,
        };
        host.strip_prefix(b"[")
            .and_then(|inner| inner.strip_suffix(b"]"))
            .unwrap_or(host)
    }

    /// `URL.String`.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend_from_slice(&self.scheme);
            out.push(b':');
        }
        if self.opaque.is_empty() {
            self.push_hierarchy(&mut out);
        } else {
            out.extend_from_slice(&self.opaque);
        }
        if !self.query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            out.extend(escape(&self.fragment, Part::Fragment));
        }
        out
    }

    fn push_hierarchy(&self, out: &mut Vec<u8>) {
        let has_path = !self.scheme.is_empty() && !self.path.is_empty();
        if !self.host.is_empty() || self.user.is_some() || has_path {
            out.extend_from_slice(b"//");
        }
        if let Some(user) = &self.user {
            out.extend(user.text());
            out.push(b'@');
        }
        out.extend(escape(&self.host, Part::Host));
        let path = escape(&self.path, Part::Path);
        if !path.is_empty() && !path.starts_with(b"/") && !self.host.is_empty() {
            out.push(b'/');
        }
        // A colon in the first segment would read as a scheme.
        if out.is_empty() && cut(&path, b'/').0.contains(&b':') {
            out.extend_from_slice(b"./");
        }
        out.extend(path);
    }
}
