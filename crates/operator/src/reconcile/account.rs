//! Decides with whose rights a release reads and writes.

use std::ops::ControlFlow::{Break, Continue};

use kube::api::Api;

use crate::cluster::connection::bounded;
use crate::cluster::connection::impersonation::{ServiceAccount, without_connection};
use crate::cluster::error::Error;
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::release::Release;
use crate::reconcile::release::schedule::TIMEOUT;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::values::service_account::service_account;
use chartwright_core::status::{Phase, Reason};
use chartwright_watches::DeletionFallback;
use k8s_openapi::api::core::v1::ServiceAccount as ServiceAccountObject;

/// Decides with whose rights a release reads and writes.
pub(crate) struct AccountStage<'s, 'a> {
    scope: &'s mut ReleaseScope<'a>,
}

impl<'s, 'a> AccountStage<'s, 'a> {
    pub(crate) fn new(scope: &'s mut ReleaseScope<'a>) -> Self {
        AccountStage { scope }
    }
}

impl AccountStage<'_, '_> {
    /// Takes the account of the watch. Stops if its template fails.
    pub(crate) fn take_account(&mut self) -> Flow {
        let found = service_account(self.scope.unit, &self.scope.written);
        let taken = match found {
            Ok(account) => self
                .scope
                .act_as(account)
                .or_stop(|error| Phase::stalled(Reason::ValuesInvalid, error.to_string())),
            Err(error) => Break(error.into()),
        };
        if taken.is_break() {
            // Later stages must not use the operator's rights.
            self.scope.client = without_connection();
        }
        taken
    }

    /// The same for a deletion, which needs no template: the account that applied the members serves as well.
    pub(crate) fn take_account_of_deletion(&mut self, release: &Release) -> Flow {
        match self.take_account() {
            Continue(()) => Continue(()),
            Break(phase) => {
                let Some((namespace, name)) = release
                    .record
                    .service_account
                    .as_deref()
                    .and_then(|text| text.split_once('/'))
                else {
                    return Break(phase);
                };
                let account = ServiceAccount {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                };
                self.scope
                    .act_as(Some(account))
                    .or_stop(|error| Phase::failed(Reason::DeleteFailed, error.to_string()))
            }
        }
    }

    /// True if a deletion that failed goes on with the rights of the operator.
    pub(crate) fn may_fall_back(&self) -> bool {
        let watch = &self.scope.unit.watch;
        let limit = watch.timeout.unwrap_or(TIMEOUT);
        let waited = self
            .scope
            .written
            .deleted_at
            .map(|at| jiff::Timestamp::now().duration_since(at));
        self.scope.account.is_some()
            && watch.deletion_fallback == DeletionFallback::Operator
            && waited.is_some_and(|waited| waited.unsigned_abs() >= limit)
    }

    /// Adds to the message of a refused request that its account does not exist, if so.
    pub(crate) async fn explain_refusal(&self, phase: &mut Phase) {
        let Some(account) = &self.scope.account else { return };
        let (Phase::Failed { message, .. } | Phase::Stalled { message, .. } | Phase::Waiting { message, .. }) = phase
        else {
            return;
        };
        if !message.contains(&account.user()) {
            return;
        }
        let api: Api<ServiceAccountObject> = Api::namespaced(self.scope.context.client.clone(), &account.namespace);
        let found = bounded(api.get_metadata(&account.name)).await;
        if found.is_err_and(|error: Error| error.is_not_found()) {
            message.push_str(&format!("; the ServiceAccount {account} does not exist"));
        }
    }
}
