//! IP addresses, as Go's `net/netip` takes them.

use std::net::{IpAddr, Ipv6Addr};

use go_template::quote::quote_go;

/// What kind of address a text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    V4,
    V6,
    /// An IPv6 address with a zone.
    Zoned,
}

/// `netip.ParseAddr`.
///
/// # Errors
/// It is no address.
pub fn parse(text: &[u8]) -> Result<Kind, String> {
    let found = std::str::from_utf8(text)
        .ok()
        .and_then(|text| match text.split_once('%') {
            Some((address, zone)) => (!zone.is_empty() && address.parse::<Ipv6Addr>().is_ok()).then_some(Kind::Zoned),
            None => match text.parse().ok()? {
                IpAddr::V4(_) => Some(Kind::V4),
                IpAddr::V6(_) => Some(Kind::V6),
            },
        });
    found.ok_or_else(|| format!("ParseAddr({}): unable to parse IP", quote_go(text)))
}
