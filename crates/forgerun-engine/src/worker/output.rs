//! The bytes of a simulated result: a JSON document of exactly the size of the kind, and the same
//! bytes for the same job every time. JSON, because every dialect can show it.

use forgerun_core::command::Output;
use forgerun_core::id::JobId;
use forgerun_core::random::SplitMix64;
use forgerun_core::work::WorkKind;

const END: &str = "\"}";

/// `None` for a size of zero.
pub(super) fn output(job: JobId, kind: WorkKind, payload_kb: u16) -> Option<Output> {
    let size = usize::from(payload_kb) * 1024;
    if size == 0 {
        return None;
    }
    let mut bytes = Vec::with_capacity(size);
    bytes.extend_from_slice(
        format!("{{\"job_id\":\"{job}\",\"work_kind\":\"{}\",\"data\":\"", kind.as_str()).as_bytes(),
    );
    fill(&mut bytes, size - END.len(), job.as_u128());
    bytes.extend_from_slice(END.as_bytes());
    Some(Output::inline("application/json", bytes))
}

/// Pseudo-random letters up to `size` bytes in all, ten letters per number.
fn fill(bytes: &mut Vec<u8>, size: usize, seed: u128) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut numbers = SplitMix64::new((seed >> 64) as u64 ^ seed as u64);
    while bytes.len() < size {
        let number = numbers.draw();
        let ten: [u8; 10] = std::array::from_fn(|n| LETTERS[(number >> (6 * n)) as usize & 63]);
        bytes.extend_from_slice(&ten[..(size - bytes.len()).min(10)]);
    }
}

#[cfg(test)]
mod tests {
    use forgerun_core::command::Content;

    use super::*;

    #[test]
    fn a_result_has_exactly_its_size_and_follows_from_the_job() {
        let job = JobId::v7(1_800_000_000_000, 7);
        for kind in WorkKind::ALL {
            let result = output(job, *kind, kind.payload_kb());
            let size = result.as_ref().map_or(0, |output| output.content.size() as usize);
            assert_eq!(size, usize::from(kind.payload_kb()) * 1024, "{kind:?}");
            assert_eq!(result, output(job, *kind, kind.payload_kb()));
        }
        let other = output(JobId::v7(1_800_000_000_000, 8), WorkKind::PayloadSmall, 1);
        assert_ne!(output(job, WorkKind::PayloadSmall, 1), other);
    }

    #[test]
    fn a_result_is_one_json_object_without_anything_to_escape() {
        let result = output(JobId::v7(1, 1), WorkKind::PayloadSmall, 1).unwrap();
        let Content::Inline(bytes) = result.content else { panic!("it is small") };
        let text = String::from_utf8(bytes).unwrap();
        let data = text.strip_prefix("{\"job_id\":\"").and_then(|text| text.strip_suffix("\"}")).unwrap();
        assert!(data.contains("\",\"work_kind\":\"PAYLOAD_SMALL\",\"data\":\""));
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'));
        assert_eq!(text.matches('"').count(), 12);
    }
}
