//! Which commands get an entry in the audit trail: those that a request runs within a scope.

use std::sync::Arc;

use forgerun_core::Command;
use forgerun_core::audit::AuditActor;
use forgerun_core::command::{Audited, AuditedChange};

/// On whose behalf commands are run.
#[derive(Clone, Debug)]
pub struct AuditScope {
    pub by: AuditActor,
    /// Whether only what clients set up is recorded: the caller is not an operator.
    pub setup_only: bool,
}

tokio::task_local! {
    static SCOPE: Arc<AuditScope>;
}

/// Runs a request. Each administrative command that it gives to the engine itself is recorded in
/// the transaction of its change; commands of tasks that it spawns are not.
pub async fn audited<F: Future>(scope: AuditScope, request: F) -> F::Output {
    SCOPE.scope(Arc::new(scope), request).await
}

/// The command, with its entry if the scope of this task wants one.
pub(crate) fn with_entry(command: Command) -> Command {
    let wanted = |scope: &Arc<AuditScope>| {
        let is_meant = !scope.setup_only || command.is_about_setup();
        (is_meant && command.audited_as().is_some()).then(|| scope.by.clone())
    };
    match SCOPE.try_with(wanted).ok().flatten() {
        Some(by) => Command::Audited(Box::new(Audited { by, change: AuditedChange::Command(command) })),
        None => command,
    }
}
