//! The formats that drafts up to 7 assert, as santhosh-tekuri/jsonschema v6 checks them.

use super::urls::percent_decode;
use crate::sprig::url_parse::Url;
use crate::sprig::{date_parse, netip, regex};
use go_template::integer::atoi;
use go_template::printf::sprintf;
use go_template::value::Value as Template;

/// Checks a text; an error is the reason as it stands in the report.
pub(super) type Check = fn(&str) -> Result<(), String>;

/// The check of a format; formats that aren't known aren't checked.
pub(super) fn find(name: &str) -> Option<Check> {
    Some(match name {
        "regex" => |text| regex::check(text.as_bytes()),
        "json-pointer" => json_pointer,
        "relative-json-pointer" => relative_json_pointer,
        "uuid" => uuid,
        "duration" => duration,
        "period" => period,
        "ipv4" => ipv4,
        "ipv6" => ipv6,
        "hostname" => hostname,
        "email" => email,
        "date" => |text| date(text.as_bytes()),
        "time" => |text| time(text.as_bytes()),
        "date-time" => date_time,
        "uri" | "iri" => uri,
        "uri-reference" | "iri-reference" => uri_reference,
        "uri-template" => uri_template,
        "semver" => semver,
        _ => return None,
    })
}

type Checked = Result<(), String>;

fn refuse(text: &str) -> Checked {
    Err(text.to_owned())
}

/// Go's `%q` of a character.
fn rune(c: char) -> String {
    String::from_utf8_lossy(&sprintf(b"%q", &[Template::Int(i64::from(u32::from(c)))])).into_owned()
}

fn invalid_character(c: char) -> String {
    format!("invalid character {}", rune(c))
}

fn json_pointer(text: &str) -> Checked {
    if text.is_empty() {
        return Ok(());
    }
    let Some(rest) = text.strip_prefix('/') else {
        return refuse("not starting with /");
    };
    for part in rest.split('/') {
        for (at, _) in part.match_indices('~') {
            if !part.get(at + 1..).is_some_and(|next| next.starts_with(['0', '1'])) {
                return refuse("~ must be followed by 0 or 1");
            }
        }
    }
    Ok(())
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn relative_json_pointer(text: &str) -> Checked {
    let (number, rest) = text.split_at(digits(text.as_bytes()));
    match number {
        "" => refuse("must start with non-negative integer"),
        number if number.len() > 1 && number.starts_with('0') => refuse("starts with zero"),
        _ if rest == "#" => Ok(()),
        _ => json_pointer(rest),
    }
}

fn uuid(text: &str) -> Checked {
    const LENGTHS: [usize; 5] = [8, 4, 4, 4, 12];
    let groups: Vec<&str> = text.split('-').collect();
    if groups.len() != LENGTHS.len() {
        return refuse("must have 5 elements");
    }
    for (at, (group, length)) in groups.iter().zip(LENGTHS).enumerate() {
        if group.len() != length {
            return Err(format!("element {} must be {length} characters long", at + 1));
        }
        if let Some(bad) = group.chars().find(|c| !c.is_ascii_hexdigit()) {
            return Err(format!("non-hex character {}", rune(bad)));
        }
    }
    Ok(())
}

fn duration(text: &str) -> Checked {
    let Some(rest) = text.strip_prefix('P') else {
        return refuse("must start with P");
    };
    if rest.is_empty() {
        return refuse("nothing after P");
    }
    if let Some(weeks) = rest.strip_suffix('W') {
        return match weeks {
            "" => refuse("no number in week"),
            weeks if weeks.bytes().all(|b| b.is_ascii_digit()) => Ok(()),
            _ => refuse("invalid week"),
        };
    }
    const UNITS: [&[u8]; 2] = [b"YMD", b"HMS"];
    for (at, part) in rest.split('T').enumerate() {
        if at != 0 && part.is_empty() {
            return refuse("no time elements");
        }
        let Some(all) = UNITS.get(at) else {
            return refuse("more than one T");
        };
        let (mut units, mut part) = (*all, part.as_bytes());
        while !part.is_empty() {
            let number = digits(part);
            if number == 0 {
                return refuse("missing number");
            }
            // Units are bytes, shown as the characters of that code.
            let Some((unit, rest)) = part.get(number..).and_then(<[u8]>::split_first) else {
                return refuse("missing unit");
            };
            match units.iter().position(|known| known == unit) {
                Some(at) => units = units.get(at + 1..).unwrap_or_default(),
                None if all.contains(unit) => return Err(format!("unit {} out of order", rune(char::from(*unit)))),
                None => return Err(format!("invalid unit {}", rune(char::from(*unit)))),
            }
            part = rest;
        }
    }
    Ok(())
}

fn ipv4(text: &str) -> Checked {
    let groups: Vec<&str> = text.split('.').collect();
    if groups.len() != 4 {
        return refuse("expected four decimals");
    }
    for group in groups {
        if group.len() > 1 && group.starts_with('0') {
            return refuse("leading zeros");
        }
        if !(0..=255).contains(&atoi(group)?) {
            return refuse("decimal must be between 0 and 255");
        }
    }
    Ok(())
}

fn ipv6(text: &str) -> Checked {
    if !text.contains(':') {
        return refuse("missing colon");
    }
    match netip::parse(text.as_bytes())? {
        netip::Kind::Zoned => refuse("zone id is not a part of ipv6 address"),
        _ => Ok(()),
    }
}

fn hostname(text: &str) -> Checked {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.len() > 253 {
        return refuse("more than 253 characters long");
    }
    for label in text.split('.') {
        if label.is_empty() || label.len() > 63 {
            return refuse("label must be 1 to 63 characters long");
        }
        if label.starts_with('-') {
            return refuse("label starts with hyphen");
        }
        if label.ends_with('-') {
            return refuse("label ends with hyphen");
        }
        if let Some(bad) = label.chars().find(|c| !(c.is_ascii_alphanumeric() || *c == '-')) {
            return Err(invalid_character(bad));
        }
    }
    Ok(())
}

fn email(text: &str) -> Checked {
    if text.len() > 254 {
        return refuse("more than 255 characters long");
    }
    let Some((local, domain)) = text.rsplit_once('@') else {
        return refuse("missing @");
    };
    if local.len() > 64 {
        return refuse("local part more than 64 characters long");
    }
    if local.len() > 1 && local.starts_with('"') && local.ends_with('"') {
        if local.get(1..local.len() - 1).unwrap_or_default().contains(['\\', '"']) {
            return refuse("backslash and quote are not allowed within quoted local part");
        }
    } else {
        if local.starts_with('.') {
            return refuse("starts with dot");
        }
        if local.ends_with('.') {
            return refuse("ends with dot");
        }
        if local.contains("..") {
            return refuse("consecutive dots");
        }
        let allowed = |c: &char| c.is_ascii_alphanumeric() || ".!#$%&'*+-/=?^_`{|}~".contains(*c);
        if let Some(bad) = local.chars().find(|c| !allowed(c)) {
            return Err(invalid_character(bad));
        }
    }
    if let Some(address) = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match address.strip_prefix("IPv6:") {
            Some(address) => ipv6(address).map_err(|e| format!("invalid ipv6 address: {e}")),
            None => ipv4(address).map_err(|e| format!("invalid ipv4 address: {e}")),
        };
    }
    hostname(domain).map_err(|e| format!("invalid domain: {e}"))
}

fn date(text: &[u8]) -> Checked {
    date_parse::check(b"2006-01-02", text)
}

/// The whole numbers of a text such as `12:34:56`.
fn clock(text: &[u8], what: &str) -> Result<Vec<i64>, String> {
    text.split(|b| *b == b':')
        .map(|part| match String::from_utf8_lossy(part).parse::<i64>() {
            Err(_) => Err(format!("invalid {what}")),
            Ok(n) if n < 0 => Err(format!("non-positive {what}")),
            Ok(n) => Ok(n),
        })
        .collect()
}

fn time(bytes: &[u8]) -> Checked {
    let (Some(head), Some(rest)) = (bytes.get(..8), bytes.get(8..).filter(|rest| !rest.is_empty())) else {
        return refuse("less than 9 characters long");
    };
    if bytes.get(2) != Some(&b':') || bytes.get(5) != Some(&b':') {
        return refuse("missing colon in correct place");
    }
    let parts = clock(head, "hour/min/sec")?;
    let &[hour, minute, second] = parts.as_slice() else {
        return refuse("invalid hour/min/sec");
    };
    if hour > 23 || minute > 59 || second > 60 {
        return refuse("hour/min/sec out of range");
    }
    let mut rest = rest;
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return refuse("no digits in second fraction");
        }
        rest = fraction.get(length..).unwrap_or_default();
    }
    let mut minutes = hour * 60 + minute;
    if !matches!(rest, b"z" | b"Z") {
        if rest.len() != 6 {
            return refuse("offset must be 6 characters long");
        }
        let sign = match rest.first() {
            Some(b'+') => -1,
            Some(b'-') => 1,
            _ => return refuse("offset must begin with plus/minus"),
        };
        if rest.get(3) != Some(&b':') {
            return refuse("missing colon in offset in correct place");
        }
        let parts = clock(rest.get(1..).unwrap_or_default(), "hour/min in offset")?;
        let &[hours, more] = parts.as_slice() else {
            return refuse("invalid hour/min in offset");
        };
        if hours > 23 || more > 59 {
            return refuse("hour/min in offset out of range");
        }
        minutes += sign * (hours * 60 + more);
        if minutes < 0 {
            minutes += 24 * 60;
        }
    }
    if second >= 60 && (minutes / 60 != 23 || minutes % 60 != 59) {
        return refuse("invalid leap second");
    }
    Ok(())
}

fn date_time(text: &str) -> Checked {
    let Some((day, [separator, rest @ ..])) = text.as_bytes().split_at_checked(10).filter(|_| text.len() >= 20) else {
        return refuse("less than 20 characters long");
    };
    if !separator.eq_ignore_ascii_case(&b't') {
        return refuse("11th character must be t or T");
    }
    date(day).map_err(|e| format!("invalid date element: {e}"))?;
    time(rest).map_err(|e| format!("invalid time element: {e}"))
}

fn period(text: &str) -> Checked {
    let Some((start, end)) = text.split_once('/') else {
        return refuse("missing slash");
    };
    if start.starts_with('P') {
        duration(start).map_err(|e| format!("invalid start duration: {e}"))?;
    } else {
        date_time(start).map_err(|e| format!("invalid start date-time: {e}"))?;
        if end.starts_with('P') {
            return duration(end).map_err(|e| format!("invalid end duration: {e}"));
        }
    }
    date_time(end).map_err(|e| format!("invalid end date-time: {e}"))
}

fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.as_bytes())?;
    let host = String::from_utf8_lossy(url.hostname()).into_owned();
    if host.contains(':') {
        if !(url.host.contains(&b'[') && url.host.contains(&b']')) {
            return Err("ipv6 address not enclosed in brackets".to_owned());
        }
        ipv6(&host).map_err(|e| format!("invalid ipv6 address: {e}"))?;
    }
    Ok(url)
}

fn uri(text: &str) -> Checked {
    if parse_url(text)?.scheme.is_empty() {
        return refuse("relative url");
    }
    Ok(())
}

fn uri_reference(text: &str) -> Checked {
    if text.contains('\\') {
        return refuse("contains \\");
    }
    parse_url(text).map(drop)
}

fn uri_template(text: &str) -> Checked {
    let url = parse_url(text)?;
    for part in url.raw_path.split(|byte| *byte == b'/') {
        let part = percent_decode(&String::from_utf8_lossy(part))?;
        let mut open = false;
        for c in part.chars().filter(|c| matches!(c, '{' | '}')) {
            if (c == '{') == open {
                return refuse("nested curly braces");
            }
            open = !open;
        }
        if open {
            return refuse("no matching closing brace");
        }
    }
    Ok(())
}

fn semver(text: &str) -> Checked {
    let identifier = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let (text, build) = text
        .split_once('+')
        .map_or((text, None), |(text, build)| (text, Some(build)));
    if build == Some("") {
        return refuse("build is empty");
    }
    for part in build.iter().flat_map(|build| build.split('.')) {
        if part.is_empty() {
            return refuse("build identifier is empty");
        }
        if let Some(bad) = part.chars().find(|c| !identifier(*c)) {
            return Err(format!("{} in build identifier", invalid_character(bad)));
        }
    }
    let (text, pre) = text
        .split_once('-')
        .map_or((text, None), |(text, pre)| (text, Some(pre)));
    for part in pre.iter().flat_map(|pre| pre.split('.')) {
        if part.is_empty() {
            return refuse("pre-release identifier is empty");
        }
        if let Some(bad) = part.chars().find(|c| !identifier(*c)) {
            return Err(format!("{} in pre-release identifier", invalid_character(bad)));
        }
        if part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit()) {
            return refuse("pre-release numeric identifier starts with zero");
        }
    }
    let numbers: Vec<&str> = text.split('.').collect();
    if numbers.len() != 3 {
        return refuse("versionCore must have 3 numbers separated by dot");
    }
    for (name, number) in ["major", "minor", "patch"].into_iter().zip(numbers) {
        if number.is_empty() {
            return Err(format!("{name} is empty"));
        }
        if number.len() > 1 && number.starts_with('0') {
            return Err(format!("{name} starts with zero"));
        }
        if !number.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("{name} contains non-digit"));
        }
    }
    Ok(())
}
