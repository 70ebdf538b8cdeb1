//! How long one attempt of a job, and the whole job, may take, and whose limit that is.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use super::Head;
use crate::time::Time;

impl Head {
    /// Bounds attempts by a limit of the server; a shorter `timeout` of the job's own stays.
    pub fn cap_timeout(&mut self, most: Duration) {
        if self.timeout.is_none_or(|own| own > most) {
            (self.timeout, self.timeout_of_server) = (Some(most), true);
        }
    }

    /// Why an attempt is stopped that ran for its whole `limit`.
    pub fn timeout_message(&self, limit: Duration) -> String {
        let own = self.timeout.is_some() && !self.timeout_of_server;
        let setting = match (own, self.is_simulated()) {
            (true, _) => "the job's own `timeout`",
            (false, true) => "`exec.max_runtime_ms` of the server",
            (false, false) => "`exec.real_max_runtime_ms` of the server",
        };
        format!("the attempt ran longer than {limit:?}, which is {setting}")
    }

    /// Why an attempt is stopped at the job's `deadline`.
    pub fn deadline_message(&self, deadline: Time) -> String {
        let span = deadline.since(self.created_at);
        format!("the attempt was stopped by the job's `deadline`, {span:?} after its submission")
    }
}
