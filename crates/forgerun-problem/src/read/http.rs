//! Reading a whole HTTP response: is this the answer to a failed request, or a report fetched with
//! success?

use super::{ReadError, Reader, Reading, Warning};
use crate::problem::{MEDIA_TYPE_JSON, MEDIA_TYPE_XML};

/// A problem found in a response.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpReading {
    /// What the response means; decided by its own status code, never by the member.
    pub meaning: Meaning,
    /// The response's status code.
    pub status: u16,
    /// The problem in its body.
    pub reading: Reading,
}

/// What a response with a problem in it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// 4xx or 5xx: the request itself failed, and this is why.
    RequestFailed,
    /// Anything else: the request went well and brought a stored report, for example of a failed
    /// job.
    Report,
}

impl Reader {
    /// Reads the problem in a response's body; `None` if the content type is not that of a problem.
    ///
    /// # Errors
    /// As [`Reader::json`] and [`Reader::xml`].
    pub fn response(
        &self,
        status: u16,
        content_type: &str,
        body: &[u8],
    ) -> Result<Option<HttpReading>, ReadError> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        let mut reading = if media_type.eq_ignore_ascii_case(MEDIA_TYPE_JSON) {
            self.json(body)?
        } else if media_type.eq_ignore_ascii_case(MEDIA_TYPE_XML) {
            self.xml(body)?
        } else {
            return Ok(None);
        };
        let meaning = if status >= 400 { Meaning::RequestFailed } else { Meaning::Report };
        // A stored report keeps the code a synchronous answer would have had, so only failures must
        // agree.
        if let Some(member) = reading.problem.status().map(|member| member.code())
            && meaning == Meaning::RequestFailed
            && member != status
        {
            reading.warnings.push(Warning::StatusDiffers { member, response: status });
        }
        Ok(Some(HttpReading { meaning, status, reading }))
    }
}
