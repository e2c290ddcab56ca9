//! What a block stores of a comment.
//!
//! A member is `<id>,<language>,<rating>`. Pagemark's own ids are ULIDs, which hold the creation
//! time. The member of any other comment has it in milliseconds after the id.

use model::{
    Cd, CommentId, Language, Malformed, Placement, ProductId, RankEntry, Rating, Timestamp,
};

pub(super) fn member_of(cd: &Cd, language: &Language, rating: Rating) -> String {
    let Cd { created_at, id } = cd;
    let rating = rating.as_str();
    if id.time() == Some(*created_at) {
        format!("{id},{language},{rating}")
    } else {
        format!("{id},{},{language},{rating}", created_at.epoch_ms())
    }
}

/// The comment of a member.
pub(super) fn cd_of(member: &str) -> Result<Cd, Malformed> {
    read(member)
        .map(|(cd, _)| cd)
        .ok_or_else(|| Malformed::new("member", format!("{member:?} is not a comment of its time")))
}

/// The comment of a member, and its entry; `None` if the member is not one of its product.
pub(super) fn entry_of(product: &ProductId, member: &str) -> Option<(CommentId, RankEntry)> {
    let (cd, placement) = read(member)?;
    let (language, rating) = placement.split_once(',')?;
    let placement = Placement {
        product: product.clone(),
        language: Language::parse_stored(language).ok()?,
        rating: Rating::new(rating.parse().ok()?).ok()?,
    };
    let entry = RankEntry {
        placement,
        created_at: cd.created_at,
    };
    (member_of(&cd, &entry.placement.language, entry.placement.rating) == member)
        .then_some((cd.id, entry))
}

/// The comment of a member, and its language and rating.
fn read(member: &str) -> Option<(Cd, &str)> {
    let (id, placement) = member.split_once(',')?;
    let id = CommentId::parse(id).ok()?;
    let (time, rest) = placement.split_once(',')?;
    if let Ok(time) = time.parse() {
        let created_at = Timestamp::from_epoch_ms(time).ok()?;
        return Some((Cd { created_at, id }, rest));
    }
    let created_at = id.time()?;
    Some((Cd { created_at, id }, placement))
}
