//! When the next reconcile of a release comes, and why.

use std::time::Duration;

/// A health that only time changes is looked at again after this; it costs no request.
pub(crate) const RECHECK: Duration = Duration::from_secs(30);

/// The same for a release of which a watch tells nothing.
pub(crate) const RECHECK_UNSEEN: Duration = Duration::from_secs(300);

/// While members go that must be gone first; their watches usually tell sooner.
pub(crate) const POLL: Duration = Duration::from_secs(5);

/// How long a hook may take if neither it nor the watch says so: as with Helm.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(300);
