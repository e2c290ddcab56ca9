//! What calls cost, in commands of the server.

use model::{CommentId, Filter, Language, plan::index_edits};
use page_index::{Contents, Edits, RankedQuery, Reads, Sought};

use super::{OwnIndex, SMALL, additions, entry, id, numbered, product};

impl OwnIndex {
    /// The number of commands so far, also those of scripts.
    async fn commands(&self) -> u64 {
        let statistics: String = self.ask("INFO", "stats", &[]).await;
        let name = "total_commands_processed:";
        let line = statistics.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    }

    /// Searches comments at any time. Returns the number of commands.
    async fn search(&self, ids: &[CommentId]) -> u64 {
        let product = product();
        let mut sought = Vec::new();
        for id in ids {
            sought.push(Sought {
                product: &product,
                id,
                times: None,
            });
        }
        let before = self.commands().await;
        let found = self.index.entries(&sought).await.unwrap();
        for (number, entries) in (0..).zip(&found) {
            assert_eq!(entries, &[numbered(number)]);
        }
        self.commands().await - before
    }
}

/// Number of comments, each in a language of its own. They fill some hundred groups.
const LANGUAGES: i64 = 3_000;

/// Commands of an edit that cuts a block and a group.
const EDIT_MAX: u64 = 100;

#[tokio::test]
async fn an_edit_costs_few_commands_in_thousands_of_languages() {
    let own = OwnIndex::start(&SMALL).await;
    let mut edits = Vec::new();
    for number in 0..LANGUAGES {
        let of_comment = entry(number, &format!("x-{number}"), 5);
        let id = id(&format!("c{number:04}"));
        edits.extend(index_edits(&id, Some(&of_comment), &[]));
    }
    // Each second one comes between others, so blocks and groups in the middle are cut as well.
    let (odd, even): (Vec<_>, Vec<_>) = (0_usize..).zip(&edits).partition(|(at, _)| at % 2 == 1);
    let mut most = 0;
    for (_, edit) in odd.into_iter().chain(even) {
        let before = own.commands().await;
        own.index.apply(std::slice::from_ref(edit)).await.unwrap();
        most = most.max(own.commands().await - before);
    }
    println!("at most {most} commands");
    assert!(most <= EDIT_MAX, "{most} commands");
    assert_eq!(own.scan().await, (Vec::new(), edits.len()));
    let product = product();
    for number in [1, 1_500, 2_999] {
        let language = Language::parse_stored(&format!("x-{number}")).unwrap();
        let filter = Filter::new(Some(language), None);
        let query = RankedQuery {
            count: 20,
            ..RankedQuery::new(&product, &filter)
        };
        let (_, found) = own.index.ranked(&[query]).await.unwrap().remove(0);
        assert_eq!(found.all, 1, "x-{number}");
        assert_eq!(found.comments[0].id, id(&format!("c{number:04}")));
    }
}

#[tokio::test]
async fn a_search_at_any_time_reads_each_block_once_for_all_comments() {
    let own = OwnIndex::start(&SMALL).await;
    own.index.apply(&additions(0..60)).await.unwrap();
    let ids: Vec<_> = (0..60).map(|number| id(&format!("c{number:04}"))).collect();
    let one = own.search(&ids[..1]).await;
    let all = own.search(&ids).await;
    // Each comment's call also compares the open block with the totals.
    assert!(all <= one + 3 * 60, "{all} commands instead of {one}");
}
