//! `.Release.Name` of a custom resource.

use sha2::{Digest, Sha256};

use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::unit::Unit;
use crate::reconcile::values::error::ValuesError;
use crate::reconcile::values::name_templates::NameTemplates;
use chartwright_watches::names::is_dns_subdomain;

/// Helm's limit (`maxReleaseNameLen` of helm.sh/helm/v4/pkg/chart/common/util/validate_name.go).
const LONGEST: usize = 53;
/// Hex digits of the hash in the place of the end of a longer name.
const HASH: usize = 8;

/// `.Release.Name`: what the watch's `releaseName` makes of the custom resource, or the name of the custom resource.
///
/// # Errors
/// If the template fails or makes no valid name.
pub fn release_name(unit: &Unit, resource: &CustomResource) -> Result<String, ValuesError> {
    let Some(template) = &unit.watch.release_name else {
        return Ok(resource.key.name.clone());
    };
    let error = |message: String| ValuesError::ReleaseName {
        template: template.clone(),
        message,
    };
    let name = NameTemplates::new(unit, resource)
        .text("releaseName", template)
        .map_err(error)?;
    let name = shorten(name.trim());
    if !is_dns_subdomain(&name) {
        return Err(error(format!(
            "{name:?} is no release name: a-z, 0-9, - and ., beginning and ending with a letter or digit"
        )));
    }
    Ok(name)
}

/// The name, or its beginning with a hash of the complete name.
fn shorten(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let hash = data_encoding::HEXLOWER.encode(&Sha256::digest(name.as_bytes()));
    let beginning: String = name
        .char_indices()
        .take_while(|(at, one)| at + one.len_utf8() < LONGEST - HASH)
        .map(|(_, one)| one)
        .collect();
    format!("{}-{}", beginning.trim_end_matches(['-', '.']), &hash[..HASH])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_with_a_hash() {
        let fits = "a".repeat(LONGEST);
        assert_eq!(shorten(&fits), fits);
        let long = format!("{}b", fits);
        let short = shorten(&long);
        assert_eq!(short.len(), LONGEST);
        assert!(short.starts_with("aaaa") && is_dns_subdomain(&short), "{short}");
        assert_ne!(
            short,
            shorten(&format!("{fits}c")),
            "names that begin alike stay different"
        );
        let dots = shorten(&format!("{}-.{}", "a".repeat(42), "b".repeat(40)));
        assert!(is_dns_subdomain(&dots) && dots.len() <= LONGEST, "{dots}");
        let wide = shorten(&"ä".repeat(40));
        assert!(wide.len() <= LONGEST && !is_dns_subdomain(&wide), "{wide}");
    }
}
