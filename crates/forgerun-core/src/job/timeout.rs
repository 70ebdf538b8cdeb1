//! Limits on the duration of an attempt and of a job, and their messages.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use super::Head;
use crate::time::Time;

impl Head {
    /// Applies the server's limit; a shorter `timeout` of the job stays.
    pub fn cap_timeout(&mut self, most: Duration) {
        if self.timeout.is_none_or(|own| own > most) {
            (self.timeout, self.timeout_of_server) = (Some(most), true);
        }
    }

    /// Message for an attempt stopped after `limit`.
    pub fn timeout_message(&self, limit: Duration) -> String {
        let own = self.timeout.is_some() && !self.timeout_of_server;
        let setting = match (own, self.is_simulated()) {
            (true, _) => "the job's own `timeout`",
            (false, true) => "`exec.max_runtime_ms` of the server",
            (false, false) => "`exec.real_max_runtime_ms` of the server",
        };
        format!("the attempt ran longer than {limit:?}, which is {setting}")
    }

    /// Message for an attempt stopped at the job's `deadline`.
    pub fn deadline_message(&self, deadline: Time) -> String {
        let span = deadline.since(self.created_at);
        let stopped = if self.workflow_head.is_some() { "the workflow" } else { "the attempt" };
        let whose = if self.workflow_head.is_some() { "its" } else { "the job's" };
        format!("{stopped} was stopped by {whose} `deadline`, {span:?} after its submission")
    }
}
