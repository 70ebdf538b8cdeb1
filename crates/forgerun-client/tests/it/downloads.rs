//! Downloads that break.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;

use forgerun_client::Error;
use serde_json::json;

use crate::foreign::{Foreign, Hurried, Reply, Request};

const WHOLE: &[u8] = b"0123456789abcdef";
const TAG: &str = "\"v1\"";

/// Sends at most `piece` bytes per answer and breaks off; understands ranges.
fn partial(request: &Request, piece: usize) -> Reply {
    let from: usize = match request.header("range") {
        Some(range) => {
            assert_eq!(request.header("if-range"), Some(TAG));
            range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap()
        }
        None => 0,
    };
    let rest = &WHOLE[from..];
    let range = format!("bytes {from}-15/16");
    let headers = [("etag", TAG), ("content-range", range.as_str()), ("content-type", "text/plain")];
    let headers = if from == 0 { &headers[..1] } else { &headers[..] };
    Reply::cut(if from == 0 { 200 } else { 206 }, headers, rest.len(), &rest[..piece.min(rest.len())])
}

#[tokio::test]
async fn a_broken_download_goes_on_where_it_ended() {
    let server = Foreign::start(|request, _| partial(request, 5)).await;
    let client = server.client(&Hurried::new());
    let whole = client.forge().result("7").await.unwrap().bytes(100).await.unwrap();
    assert_eq!(whole, WHOLE);
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn a_result_that_changed_in_between_is_not_patched_together() {
    let server = Foreign::start(|_, n| match n {
        0 => Reply::cut(200, &[("etag", TAG)], 16, b"01234"),
        _ => Reply::new(200, &[("etag", "\"v2\"")], b"something else!!"),
    })
    .await;
    let client = server.client(&Hurried::new());
    let download = client.forge().result("7").await.unwrap();
    assert!(matches!(download.bytes(100).await, Err(Error::Protocol(_))));
}

#[tokio::test]
async fn a_file_appears_whole_or_not_at_all_and_is_gone_on_with_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.txt");
    // Five bytes, and then nothing more, whatever is asked.
    let stingy =
        Foreign::start(|request, _| partial(request, if request.header("range").is_some() { 0 } else { 5 }))
            .await;
    let client = stingy.client(&Hurried::new());
    let error = client.forge().result("7").await.unwrap().save(&path, |_| {}).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
    assert!(!path.exists(), "half a result is no result");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left.len(), 1);
    assert_eq!(fs::read(&left[0]).unwrap(), b"01234");
    // Another process, the same content.
    let server = Foreign::start(|request, _| partial(request, 16)).await;
    let client = server.client(&Hurried::new());
    let mut seen = Vec::new();
    let size = client.forge().result("7").await.unwrap().save(&path, |at| seen.push(at)).await.unwrap();
    assert_eq!((size, seen.as_slice()), (16, [16].as_slice()));
    assert_eq!(fs::read(&path).unwrap(), WHOLE);
    assert_eq!(server.requests()[1].header("range"), Some("bytes=5-"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[tokio::test]
async fn a_wrong_digest_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.txt");
    let wrong = "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:";
    let server =
        Foreign::start(move |_, _| Reply::new(200, &[("etag", TAG), ("repr-digest", wrong)], WHOLE)).await;
    let download = server.client(&Hurried::new()).forge().result("7").await.unwrap();
    assert!(matches!(download.save(&path, |_| {}).await, Err(Error::Protocol(_))));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Saves the whole of it to this path.
async fn save(path: &Path) -> Result<u64, Error> {
    let server = Foreign::start(|_, _| Reply::new(200, &[("etag", TAG)], WHOLE)).await;
    server.client(&Hurried::new()).forge().result("7").await.unwrap().save(path, |_| {}).await
}

#[tokio::test]
async fn a_file_that_is_replaced_keeps_its_mode_and_is_read_by_nobody_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.txt");
    for mode in [0o600, 0o640, 0o666, 0o400] {
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        // What an earlier download left may be open to all.
        let stingy = Foreign::start(|_, _| Reply::cut(200, &[("etag", TAG)], 16, b"01234")).await;
        let download = stingy.client(&Hurried::new()).forge().result("7").await.unwrap();
        let parts = || fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let part = || parts().find(|part| *part != path).unwrap();
        let saved = download.save(&path, |_| assert_eq!(mode_of(&part()), 0o600)).await;
        assert!(saved.is_err() && fs::read(&path).unwrap() == b"old");
        for part in parts().filter(|part| *part != path) {
            fs::remove_file(part).unwrap();
        }
        assert_eq!(save(&path).await.unwrap(), 16);
        assert_eq!((fs::read(&path).unwrap().as_slice(), mode_of(&path)), (WHOLE, mode), "{mode:o}");
        fs::remove_file(&path).unwrap();
    }
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn a_link_is_followed_and_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file.txt"), folder.path().join("link.txt"));
    symlink("file.txt", &link).unwrap();
    for there in [None, Some("old")] {
        if let Some(old) = there {
            fs::write(&file, old).unwrap();
        }
        save(&link).await.unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), WHOLE);
        fs::remove_file(&file).unwrap();
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left but the link");
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    symlink(&a, &b).unwrap();
    symlink(&b, &a).unwrap();
    assert!(matches!(save(&a).await, Err(Error::File { .. })), "links in a circle lead nowhere");
}

#[tokio::test]
async fn what_is_no_file_is_written_to_and_stays_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = tokio::task::spawn_blocking({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    assert_eq!(save(&pipe).await.unwrap(), 16);
    assert_eq!(reader.await.unwrap(), WHOLE);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    let error = save(folder.path()).await.unwrap_err();
    assert!(error.to_string().contains("it is a folder"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[tokio::test]
async fn two_downloads_to_one_file_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.txt");
    let server = Foreign::start(|request, _| partial(request, 5)).await;
    let mut saving = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (path, client) = (path.clone(), server.client(&Hurried::new()));
        saving.spawn(async move { client.forge().result("7").await.unwrap().save(&path, |_| {}).await });
    }
    while let Some(saved) = saving.join_next().await {
        assert_eq!(saved.unwrap().unwrap(), 16);
    }
    assert_eq!(fs::read(&path).unwrap(), WHOLE);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_named() {
    let server = Foreign::start(|_, _| Reply::new(200, &[], WHOLE)).await;
    let download = server.client(&Hurried::new()).forge().result("7").await.unwrap();
    let error = download.save("/nowhere/at/all.txt".as_ref(), |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all.txt"), "{error}");
}

#[tokio::test]
async fn more_than_was_asked_for_is_refused_in_memory() {
    let server = Foreign::start(|_, _| Reply::new(200, &[], WHOLE)).await;
    let download = server.client(&Hurried::new()).forge().result("7").await.unwrap();
    assert!(matches!(download.bytes(15).await, Err(Error::Protocol(_))));
}

#[tokio::test]
async fn a_result_that_is_not_ready_is_an_error_of_its_category() {
    let server =
        Foreign::start(|_, _| Reply::json(409, &[], json!({"code": "INVALID_STATE_TRANSITION"}))).await;
    let error = server.client(&Hurried::new()).forge().result("7").await.unwrap_err();
    assert!(matches!(error, Error::Validation(_)));
}
