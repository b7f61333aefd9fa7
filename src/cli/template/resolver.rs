//! Why a host's name has no address, in the words of Go's resolver: it asks the name servers itself, and tells what it
//! met there. Facts: `tryOneName` in Go's `net/dnsclient_unix.go`, `net/dnsconfig_unix.go`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::chart::io_text;

/// How often each server is asked.
const ATTEMPTS: usize = 2;
/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// As many servers as are asked.
const MOST_SERVERS: usize = 3;

const NO_SUCH_HOST: &str = "no such host";

/// The error for a host whose address wasn't found: `lookup <host> on <server>: <why>`.
pub fn lookup_error(host: &str) -> String {
    let config = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    explain(host, &servers(&config), TIMEOUT)
}

/// The name servers of a `resolv.conf`; without any, this machine.
fn servers(config: &str) -> Vec<SocketAddr> {
    let named = config.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let is_server = words.next() == Some("nameserver");
        words.next().filter(|_| is_server)?.parse::<IpAddr>().ok()
    });
    let mut servers: Vec<IpAddr> = named.take(MOST_SERVERS).collect();
    if servers.is_empty() {
        servers = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    servers
        .into_iter()
        .map(|address| SocketAddr::new(address, 53))
        .collect()
}

/// Asks the servers in turn: the first that knows that there is no such host decides, else the last has the word.
fn explain(host: &str, servers: &[SocketAddr], timeout: Duration) -> String {
    let mut last = format!("lookup {host}: {NO_SUCH_HOST}");
    for server in std::iter::repeat_n(servers, ATTEMPTS).flatten() {
        let why = ask(host, *server, timeout);
        last = format!("lookup {host} on {server}: {why}");
        if why == NO_SUCH_HOST {
            break;
        }
    }
    last
}

fn ask(host: &str, server: SocketAddr, timeout: Duration) -> String {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let dialled = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(server)?;
        socket.set_read_timeout(Some(timeout))?;
        let local = socket.local_addr()?;
        Ok((socket, local))
    });
    let (socket, local) = match dialled {
        Ok(dialled) => dialled,
        Err(error) => return format!("dial udp {server}: connect: {}", io_text(&error)),
    };
    if let Err(error) = socket.send(&query(host)) {
        return format!("write udp {local}->{server}: write: {}", io_text(&error));
    }
    let mut answer = [0; 512];
    match socket.recv(&mut answer) {
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
            ) =>
        {
            format!("read udp {local}->{server}: i/o timeout")
        }
        Err(error) => format!("read udp {local}->{server}: read: {}", io_text(&error)),
        // The code of an answer (RFC 1035, 4.1.1): none is an answer without addresses, 3 that there is no such name.
        Ok(_) if matches!(answer[3] & 0x0F, 0 | 3) => NO_SUCH_HOST.to_owned(),
        Ok(_) => "server misbehaving".to_owned(),
    }
}

/// A question for the addresses of a host (RFC 1035, 4.1).
fn query(host: &str) -> Vec<u8> {
    let mut message = vec![0x63, 0x77, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in host.split('.').filter(|label| !label.is_empty()) {
        let label = label.as_bytes().get(..63).unwrap_or(label.as_bytes());
        message.extend(u8::try_from(label.len()));
        message.extend(label);
    }
    // The root, an address (A), the internet (IN).
    message.extend([0, 0, 1, 0, 1]);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name server on the loopback that answers with a code.
    fn server(code: u8) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut message = [0; 512];
            while let Ok((size, from)) = socket.recv_from(&mut message) {
                message[2] |= 0x80;
                message[3] = code;
                socket.send_to(&message[..size], from).unwrap();
            }
        });
        address
    }

    fn why(servers: &[SocketAddr]) -> String {
        explain("a.example.org", servers, Duration::from_millis(300))
    }

    #[test]
    fn errors_name_the_server_and_what_happened_there() {
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let silent_at = silent.local_addr().unwrap();
        let (knows, fails) = (server(3), server(2));
        assert_eq!(why(&[knows]), format!("lookup a.example.org on {knows}: no such host"));
        assert_eq!(
            why(&[closed, fails]),
            format!("lookup a.example.org on {fails}: server misbehaving")
        );
        assert_eq!(
            why(&[fails, knows, closed]),
            format!("lookup a.example.org on {knows}: no such host")
        );
        // The port from which the question came is different each time.
        for (server, end) in [(closed, "read: connection refused"), (silent_at, "i/o timeout")] {
            let text = why(&[server]);
            let start = format!("lookup a.example.org on {server}: read udp 127.0.0.1:");
            assert!(
                text.starts_with(&start) && text.ends_with(&format!("->{server}: {end}")),
                "{text}"
            );
        }
    }

    #[test]
    fn name_servers_are_those_of_the_configuration() {
        let shown = |config: &str| {
            servers(config)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        for (config, want) in [
            ("", "127.0.0.1:53 [::1]:53"),
            ("search a\n#nameserver 1.2.3.4\nnameserver x\n", "127.0.0.1:53 [::1]:53"),
            (
                "nameserver 10.0.0.1\nnameserver\tfd00::1 # x\n",
                "10.0.0.1:53 [fd00::1]:53",
            ),
            (
                &"nameserver 10.0.0.1\n".repeat(5),
                "10.0.0.1:53 10.0.0.1:53 10.0.0.1:53",
            ),
        ] {
            assert_eq!(shown(config), want, "{config:?}");
        }
    }
}
