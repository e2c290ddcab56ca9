# The texts of pages in English. The other languages have the same messages with the same variables.
#
# $count is a number with a plural form; other numbers have none. A text that stands before or after something on the
# page says so.

## Numbers, dates and lists

number = { $number }
percent = { $percent }%
separator = { ", " }
# Between sentences.
sentence-separator = { " " }
# Before the last of several numbers: "1, 2 or 5".
or = { $first } or { $last }
# $month is 1 to 12; $year is a text.
month = { $month ->
    [1] Jan
    [2] Feb
    [3] Mar
    [4] Apr
    [5] May
    [6] Jun
    [7] Jul
    [8] Aug
    [9] Sep
    [10] Oct
    [11] Nov
   *[12] Dec
}
day = { $day } { month } { $year }
# From one day to another one.
days = { $from } to { $to }

comments = { $count ->
    [one] { $count } comment
   *[other] { $count } comments
}
# After the number, for screen readers.
comments-noun = { $count ->
    [one] comment
   *[other] comments
}
out-of-5 = { $rating } out of 5
# After the number.
of-5 = out of 5

## Frame of all pages

skip = Skip to the content
start-page = Start page
try-again = Try again
pages = Pages
rating = Rating
language = Language
# Before the number of a page, for screen readers.
page = Page
newer = Newer
older = Older
previous = Previous
next = Next
# After each of the four, for screen readers.
step-page = page

## A page of comments

# Before the name of the product, on a line of its own.
comments-on = Comments on
title-comments = Comments on { $name }
title-no-comments = No comments on { $name }
in-language = in { $language }
rated = rated { $ratings }
page-number = page { $page }
page-of-pages = page { $page } of { $pages }
page-of-archive = page { $page } of { $pages } from the oldest
continued = continued
newest-first = newest first
oldest-first = oldest first
highest-first = highest rating first
lowest-first = lowest rating first
# $comments is such as "12 comments" or "The newest comments", $filter such as "in English, rated 5".
comments-of-filter = { $comments } { $filter }
some-comments = Comments
the-newest-comments = The newest comments
the-oldest-comments = The oldest comments
# $text is such as "45 comments, page 2 of 3", $days such as "1 May 2024 to 3 May 2024".
range = { $text }: { $days }
range-newest = { $text }: the newest, { $days }

# What search engines show below the title. $order is newest-first or oldest-first.
description-subject = { $subject }.
description-rated = Rated { $average } out of 5 by { $count ->
    [one] { $count } comment
   *[other] { $count } comments
}.
description-range = Comments { $from } to { $to }, { $order }: { $days }.
description-range-of = Comments { $from } to { $to } of { $total }, { $order }: { $days }.
description-range-from-oldest = Comments { $from } to { $to } from the oldest, { $order }: { $days }.

average = { $average }
# After the average.
average-out-of-5 = out of 5, from { $count ->
    [one] { $count } comment
   *[other] { $count } comments
}
# Before the average of a language, and after it.
average-in-language = In { $language }:
average-from = from { $count ->
    [one] { $count } comment
   *[other] { $count } comments
}
view-product = View this product
write = Write a comment
show-newest-first = Show the newest first
show-oldest-first = Show the oldest first
show-highest-first = Show the highest ratings first
show-lowest-first = Show the lowest ratings first
feed-of-comments = Feed of these comments
degraded = Counts and page numbers are away for a moment. Pages can still be turned one by one; links to single comments will work again soon.
no-match = No comment on this product matches these filters.
nobody = Nobody has commented on this product yet.
all-comments = All comments on this product

filters = Filters
active-filters = Active filters
# Before a filter, for screen readers.
remove = Remove
remove-all = Remove all filters
chosen-language = Language: { $language }
chosen-ratings = Rating: { $ratings }
all-languages = All languages
more-languages = { $count ->
    [one] { $count } more language
   *[other] { $count } more languages
}

anonymous = Anonymous
# Before the name of an author, for screen readers.
comment-of = Comment of
# Before a time, for screen readers.
link-to-comment = link to this comment of
show-rest = Show the rest
photo = Photo { $number }

newest-positive-and-critical = Newest positive and critical
most-recent-positive = Most recent positive
most-recent-critical = Most recent critical
all-positive = All positive comments
all-critical = All critical comments

pages-before-comments = Pages, before the comments
other-pages = Other pages
newest = Newest
oldest = Oldest
page-1-is-oldest = Page 1 is oldest
# Before the field for a number, and on the button after it.
page-to-go = Page
go = Go

## The list of products, and the start page

products = Products
# In the title; in a sentence.
title-most-commented = Most commented products
words-most-commented = most commented
# $list is such as "most commented, page 2".
description-products = Products by their comments: { $list }.
products-of = Products { $from } to { $to } of { $total }
no-products = No product has comments yet.
# Before a day.
newest-comment = Newest:
title-start = Pagemark: comments of products
about = Comments of products, with filters and with page numbers that are real addresses.
all-products = All products with comments
try = What to try
demo = This is the demo: some 2,000 generated comments on three products of a shop that does not exist, an espresso machine, a milk jug and a book. Each page of comments ends with a line for engineers.
try-newest = The newest comments, with the long one unfolded by a click
try-page = Page 7, whose address keeps its comments while others are posted
try-filter = Comments in English rated 4 or 5: a filter is one key
try-right-to-left = Comments that are read from right to left
try-slash = A product whose id has a slash
try-json = Critical comments as JSON, with what the answer cost
products-away = The list of products is away for a moment.
base-path = In front of each path stands { $path }.
product-id = Put the id of your product, percent-encoded, in place of PRODUCT: a slash in it becomes %2F.
help-comments = All comments, newest first.
help-page-from-oldest = Page 7, counted from the oldest.
help-oldest = The oldest first.
help-language = Those in one language (a BCP 47 tag), or in any: ~.
help-ratings = Those with one of some ratings.
help-comment = The page that shows one comment.
help-json-comments = The same as data; follow links.next.
help-json-products = The products that have comments.
help-json-stats = How many comments there are, by rating and by language.
help-json-post = A new comment, with Authorization: Bearer TOKEN.
help-readyz = How the stores are.

## Errors

heading-mistake = There is a mistake in this address
heading-nothing = There is no such page
heading-away = This page is away for a moment
heading-error = Error { $status }
last-page = The last page, page { $page }
page-1 = Page 1
page-1-oldest = Page 1, with the oldest comments
first-page = The first page
meanwhile-first-page = Only the numbering of pages is missing at the moment. The first page of the list can be read meanwhile.
meanwhile-others = No comments were found here, but there may be some: this cannot be checked at the moment. Pages with comments can be read meanwhile.
# Before the reason, which is in English. $part is one of those below.
error-mistake = This part of it is wrong: { $part }.
part-page = the page number
part-order = the order
part-date = the date
part-cursor = the cursor
part-language = the language
part-rating = the rating
part-product = the product
part-id = the comment
error-no-route = There is nothing at this address.
error-method = This address takes only { $allow }.
error-no-comment = There is no such comment.
error-no-product = There is no such product.
error-past-the-end = Page { $page } lies past the end: the last is page { $last }.
error-past-all-numbers = Page { $page } lies past the end: no page has a number; all comments are on the page without one.
error-past-the-archive = Page { $page } lies past the end: the newest numbered page is { $last }; newer comments are on the page without a number.
error-index = Page numbers and totals are temporarily unavailable, so this cannot be answered now. Try again later.
error-not-yet-listed = Comments of this listing are still being put into its pages, and this page may show some. Try again in a moment.
error-table = The comments are temporarily out of reach. Try again later.
error-overloaded = Too many requests are under way. Try again later.
error-timed-out = The request took too long. A write may have happened or not. Try again later.
error-internal = The server made a mistake; it has been logged.
verified = Verified
reply-of = Reply of
the-shop = the shop
