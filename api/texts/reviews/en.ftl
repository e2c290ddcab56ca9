# A preset: the messages of ../en.ftl with reviews in place of comments. A site chooses it by its file messages/preset.

comments = { $count ->
    [one] { $count } review
   *[other] { $count } reviews
}
comments-noun = { $count ->
    [one] review
   *[other] reviews
}
comments-on = Reviews of
title-comments = Reviews of { $name }
title-no-comments = No reviews of { $name }
some-comments = Reviews
the-newest-comments = The newest reviews
the-oldest-comments = The oldest reviews
description-rated = Rated { $average } out of 5 by { $count ->
    [one] { $count } review
   *[other] { $count } reviews
}.
description-range = Reviews { $from } to { $to }, { $order }: { $days }.
description-range-of = Reviews { $from } to { $to } of { $total }, { $order }: { $days }.
description-range-from-oldest = Reviews { $from } to { $to } from the oldest, { $order }: { $days }.
average-out-of-5 = out of 5, from { $count ->
    [one] { $count } review
   *[other] { $count } reviews
}
average-from = from { $count ->
    [one] { $count } review
   *[other] { $count } reviews
}
feed-of-comments = Feed of these reviews
degraded = Counts and page numbers are away for a moment. Pages can still be turned one by one; links to single reviews will work again soon.
no-match = No review of this product matches these filters.
nobody = Nobody has reviewed this product yet.
all-comments = All reviews of this product
write = Write a review
comment-of = Review of
link-to-comment = link to this review of
all-positive = All positive reviews
all-critical = All critical reviews
pages-before-comments = Pages, before the reviews
title-most-commented = Most reviewed products
words-most-commented = most reviewed
description-products = Products by their reviews: { $list }.
no-products = No product has reviews yet.
title-start = Pagemark: reviews of products
about = Reviews of products, with filters and with page numbers that are real addresses.
all-products = All products with reviews
help-comments = All reviews, newest first.
help-comment = The page that shows one review.
help-json-products = The products that have reviews.
help-json-stats = How many reviews there are, by rating and by language.
help-json-post = A new review, with Authorization: Bearer TOKEN.
page-1-oldest = Page 1, with the oldest reviews
meanwhile-others = No reviews were found here, but there may be some: this cannot be checked at the moment. Pages with reviews can be read meanwhile.
part-id = the review
error-no-comment = There is no such review.
error-past-all-numbers = Page { $page } lies past the end: no page has a number; all reviews are on the page without one.
error-past-the-archive = Page { $page } lies past the end: the newest numbered page is { $last }; newer reviews are on the page without a number.
error-not-yet-listed = Reviews of this listing are still being put into its pages, and this page may show some. Try again in a moment.
error-table = The reviews are temporarily out of reach. Try again later.
