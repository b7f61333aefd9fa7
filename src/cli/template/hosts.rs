//! The addresses of hosts, from this machine's resolver, for `getHostByName`. Facts: `LookupHost` in Go's `net/lookup.go`.

use std::net::{IpAddr, Ipv6Addr, ToSocketAddrs};

use crate::render::Hosts;

/// What the operating system knows.
pub fn system() -> Hosts {
    Hosts::new(addresses)
}

/// The addresses of a host, none if there is no such host.
pub fn addresses(host: &str) -> Vec<String> {
    if is_address(host) {
        return vec![host.to_owned()];
    }
    if host.is_empty() || is_number(host) {
        return Vec::new();
    }
    let found = (host, 0).to_socket_addrs();
    let found = found.into_iter().flatten().map(|found| found.ip().to_string());
    found.collect()
}

/// An address as such, where one of version 6 may name its zone.
fn is_address(host: &str) -> bool {
    let has_zone = |(address, zone): (&str, &str)| address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty();
    host.parse::<IpAddr>().is_ok() || host.split_once('%').is_some_and(has_zone)
}

/// What C's resolver takes for an address, such as `127.1` or `0x7f000001`, and Go's for a name that nobody has.
fn is_number(host: &str) -> bool {
    host.split('.').all(|part| {
        let digits = part.strip_prefix("0x").or(part.strip_prefix("0X"));
        match digits {
            Some(digits) => digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
            None => !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::addresses;

    #[test]
    fn this_machine_has_an_address() {
        let found = addresses("localhost");
        assert!(found.iter().any(|address| address == "127.0.0.1"), "{found:?}");
    }

    #[test]
    fn addresses_are_their_own() {
        for host in ["10.0.0.1", "::1", "FE80::1", "fe80::1%eth0", "::ffff:10.0.0.1"] {
            assert_eq!(addresses(host), [host]);
        }
        for host in ["", "127.1", "2130706433", "0x7f000001", "fe80::1%"] {
            assert!(addresses(host).is_empty(), "{host}");
        }
    }
}
