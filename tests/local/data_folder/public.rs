//! A stack of a public site keeps from its readers what is for operators, and keeps what readers
//! hold.

use std::path::Path;

use crate::fixture::{
    data::PRODUCT,
    folder_in_memory,
    http::{Http, WRITE_TOKEN, encoded, good_comment, listing},
    pagemark::Up,
    wait_for,
};

async fn start(folder: &Path, more: &[&str]) -> Up {
    Up::start(folder, &[&["--write-token", WRITE_TOKEN], more].concat()).await
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_public_site_serves_no_metrics_to_its_readers() {
    let folder = folder_in_memory();
    let public = [
        "--public-url",
        "https://comments.example.com",
        "--operations-listen",
        "127.0.0.1:0",
    ];
    let up = start(folder.path(), &public).await;
    assert_ne!(up.operations, up.api.authority());
    // Readers would take generated comments for real.
    let products = up.api.get("/api/v1/products?page=1").await.expect(200);
    assert_eq!(products["total"], 0);
    let operations = Http::new(format!("http://{}", up.operations));
    for path in ["/metrics", "/readyz", "/livez"] {
        assert_eq!(up.api.get(path).await.status, 404, "{path}");
        assert_eq!(operations.get(path).await.status, 200, "{path}");
    }
    let comment = good_comment("en", 5, "A body");
    up.api.post(PRODUCT, &comment).await.expect(201);
    up.stop().await;

    let up = start(folder.path(), &[]).await;
    assert_eq!(up.operations, up.api.authority());
    assert_eq!(up.api.get("/metrics").await.status, 200);
    up.stop().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_cursor_stays_valid_when_the_stack_starts_again() {
    let folder = folder_in_memory();
    let up = start(folder.path(), &["--demo", "0"]).await;
    for rating in 1..=3 {
        up.api
            .post(PRODUCT, &good_comment("en", rating, "A body"))
            .await
            .expect(201);
    }
    let next = wait_for("a cursor", async || {
        let page = up.api.get(&listing("page_size=1")).await.expect(200);
        page["cursor"]["next"]
            .as_str()
            .map(str::to_owned)
            .ok_or(page)
    })
    .await;
    up.stop().await;
    let target = listing(&format!("page_size=1&cursor={}", encoded(&next)));
    for (more, status) in [(&[][..], 200), (&["--cursor-key", &"0a".repeat(32)], 400)] {
        let up = start(folder.path(), more).await;
        up.api.get(&target).await.expect(status);
        up.stop().await;
    }
}
