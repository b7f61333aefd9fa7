//! Checks of names, by the rules of Kubernetes (`k8s.io/apimachinery/pkg/util/validation`).

fn is_alphanumeric(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// True for an RFC 1123 label: at most 63 of `a-z`, `0-9` and `-`, with a letter or digit at both ends. Namespaces are labels.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_subdomain_part(text)
}

/// True for an RFC 1123 subdomain: labels with dots between them, at most 253 bytes. API groups are subdomains.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

/// The rule of [`is_dns_label`], for messages.
pub const DNS_LABEL: &str = "at most 63 of a-z, 0-9 and -, with a letter or digit at both ends";

/// Checks the name of an object before the API server does. Names of Kubernetes' own kinds are DNS subdomains, except those of RBAC,
/// APIServices and CertificateSigningRequests. For custom kinds only the common rules are checked.
///
/// # Errors
/// The rule that the name violates.
pub fn check_object_name(group: &str, name: &str) -> Result<(), &'static str> {
    // `IsValidPathSegmentName` of k8s.io/apimachinery/pkg/api/validation/path.
    if matches!(name, "." | "..") || name.contains(['/', '%']) {
        return Err("it cannot be part of a path: `.`, `..`, `/` and `%` are not allowed");
    }
    let is_free = match group {
        "rbac.authorization.k8s.io" | "certificates.k8s.io" | "apiregistration.k8s.io" => true,
        _ => !is_built_in(group),
    };
    match name.len() {
        254.. => Err("it has more than 253 bytes"),
        _ if is_free || name.split('.').all(is_subdomain_part) => Ok(()),
        _ => Err("a DNS name in lower case is needed: at most 253 of a-z, 0-9, - and ."),
    }
}

/// True if a text can stand in the path of a request as the name of an object: `/` and `%` would change the path.
pub fn is_path_segment(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && !text.contains(['/', '%', '{', '}', ' ', '\n'])
        && text != "."
        && text != ".."
}

/// True for a part of a subdomain, of any length: Kubernetes does not limit the parts of names.
fn is_subdomain_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    is_alphanumeric(bytes.first())
        && is_alphanumeric(bytes.last())
        && bytes.iter().all(|byte| is_alphanumeric(Some(byte)) || *byte == b'-')
}

/// True for an API version such as `v1alpha1`: a DNS label that begins with a letter.
pub fn is_version(text: &str) -> bool {
    is_dns_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

/// True for a kind: letters and digits, a letter first. The API server also accepts hyphens, but no kind uses them.
pub fn is_kind(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// True for the value of a label: empty, or at most 63 of `A-Za-z0-9._-` with a letter or digit at both ends.
pub fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && end(bytes.first())
        && end(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// True for the key of a label: a non-empty name of the form of a label value, after an optional DNS prefix and `/`.
pub(crate) fn is_label_key(text: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && is_label_value(name);
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
        None => is_name(text),
    }
}

/// API groups of Kubernetes' own kinds that contain a dot (`k8s.io/api` 1.36). Groups of CRDs may end in `k8s.io`, too.
const BUILT_IN: [&str; 19] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "imagepolicy.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// True if a domain equals `parent` or is a subdomain of it.
pub fn is_within(domain: &str, parent: &str) -> bool {
    domain
        .strip_suffix(parent)
        .is_some_and(|above| above.is_empty() || above.ends_with('.'))
}

/// True for an API group of Kubernetes' own kinds: the core group, all groups without a dot (no CRD can have one), and
/// the groups of `BUILT_IN`.
pub fn is_built_in(group: &str) -> bool {
    !group.contains('.') || BUILT_IN.contains(&group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_by_their_rules() {
        type NameCheck = fn(&str) -> bool;
        let long = "a".repeat(64);
        let cases: [(NameCheck, &[&str], &[&str]); 6] = [
            (
                is_dns_label,
                &["a", "a-1", "1a"],
                &["", "-a", "a-", "A", "a.b", "a_b", &long],
            ),
            (
                is_dns_subdomain,
                &["a", "cache.example.com"],
                &["", "a..b", ".a", "example.com/v1", "Example.com"],
            ),
            (is_version, &["v1", "v1alpha1"], &["", "1", "V1", "v1.2"]),
            (
                is_kind,
                &["Memcached", "HTTPRoute", "nginx"],
                &["", "My Kind", "a-b", "1A", "A.b"],
            ),
            (is_label_value, &["", "a", "A_b.c-1"], &["-a", "a-", "a b", "ü", &long]),
            (
                is_label_key,
                &["a", "app.kubernetes.io/name"],
                &["", "/a", "a/", "a/b/c", "A/b"],
            ),
        ];
        for (check, valid, invalid) in cases {
            for name in valid {
                assert!(check(name), "{name}");
            }
            for name in invalid {
                assert!(!check(name), "{name}");
            }
        }
    }

    #[test]
    fn built_in_groups_are_recognized() {
        for group in ["", "apps", "batch", "rbac.authorization.k8s.io", "storage.k8s.io"] {
            assert!(is_built_in(group), "{group}");
        }
        for group in ["cache.example.com", "gateway.networking.k8s.io", "k8s.io"] {
            assert!(!is_built_in(group), "{group}");
        }
    }
}
