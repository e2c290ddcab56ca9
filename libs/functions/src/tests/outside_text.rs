//! Property tests of the parsers of text from outside: settings, and documents in the quarantine.

use proptest::prelude::*;
use serde_json::json;

use crate::quarantine::{QuarantineLocation, QuarantinedBatch};

proptest! {
    #[test]
    fn a_location_of_the_quarantine_is_read_or_refused(
        text in r"(s3|folder|mapping)?(:|://|:/)?[a-zé./-]{0,9}(/[a-z/]{0,5}){0,2}|.{0,20}",
    ) {
        if let Ok(QuarantineLocation::Bucket { bucket, prefix }) = text.parse() {
            prop_assert!(!bucket.is_empty() && !bucket.contains('/'));
            let own = format!("s3://{bucket}/{prefix}").parse();
            prop_assert_eq!(own, Ok(QuarantineLocation::Bucket { bucket, prefix }));
        }
    }

    #[test]
    fn a_batch_in_quarantine_names_comments_or_is_unreadable(
        any in prop::collection::vec(any::<u8>(), 0..60),
        pk in "(COMMENT#)?[a-zé./]{0,5}",
        sk in "(PRODUCT#)?[a-z%2F]{0,5}(/(~|en|e|KO)){0,3}",
        language in "[a-zA-Z_é-]{0,5}",
        cut in 0..400_usize,
    ) {
        let keys = json!({ "pk": { "S": pk }, "sk": { "S": sk } });
        let record = json!({ "dynamodb": { "Keys": keys, "NewImage": { "language": { "S": language } } } });
        let payload = json!({ "Records": [record, {}, null, 1] }).to_string();
        let cut_off: String = payload.chars().take(cut).collect();
        for payload in [json!(payload), json!(cut_off), json!([]), json!(1)] {
            let batch = QuarantinedBatch::read(json!({ "payload": payload }).to_string().as_bytes());
            prop_assert!(batch.comments.len() <= 1 && !batch.unreadable.is_empty());
        }
        prop_assert!(!QuarantinedBatch::read(&any).unreadable.is_empty());
    }
}
