# The texts of pages in Japanese. See en.ftl for what each of them is for.

## Numbers, dates and lists

number = { $number }
percent = { $percent }%
separator = 、
sentence-separator = { "" }
or = { $first }または{ $last }
month = { $month }月
day = { $year }年{ month }{ $day }日
days = { $from }～{ $to }

comments = コメント{ $count }件
comments-noun = { $count ->
   *[other] 件のコメント
}
out-of-5 = 5点満点中{ $rating }点
of-5 = 点（5点満点）

## Frame of all pages

skip = 本文へ移動
start-page = トップページ
try-again = もう一度試す
pages = ページ
rating = 評価
language = 言語
page = ページ
newer = 新しいコメント
older = 古いコメント
previous = 前へ
next = 次へ
step-page = （ページ）

## A page of comments

comments-on = コメント
title-comments = { $name }のコメント
title-no-comments = { $name }のコメントはありません
in-language = { $language }
rated = 評価{ $ratings }
page-number = { $page }ページ
page-of-pages = { $page }／{ $pages }ページ
page-of-archive = 古い順で{ $page }／{ $pages }ページ
continued = 続き
newest-first = 新しい順
oldest-first = 古い順
highest-first = 評価の高い順
lowest-first = 評価の低い順
comments-of-filter = { $filter }の{ $comments }
some-comments = コメント
the-newest-comments = 最新のコメント
the-oldest-comments = 最も古いコメント
range = { $text }：{ $days }
range-newest = { $text }：最新、{ $days }

description-subject = { $subject }。
description-rated = 平均評価は5点満点中{ $average }点（コメント{ $count }件）。
description-range = { $from }～{ $to }件目のコメント、{ $order }：{ $days }。
description-range-of = 全{ $total }件中{ $from }～{ $to }件目のコメント、{ $order }：{ $days }。
description-range-from-oldest = 古い方から{ $from }～{ $to }件目のコメント、{ $order }：{ $days }。

average = { $average }
average-out-of-5 = ／5（コメント{ $count }件）
average-in-language = { $language }：
average-from = （コメント{ $count }件）
view-product = 商品を見る
write = コメントを書く
show-newest-first = 新しい順に表示
show-oldest-first = 古い順に表示
show-highest-first = 評価の高い順に表示
show-lowest-first = 評価の低い順に表示
feed-of-comments = このコメントのフィード
degraded = 現在、件数とページ番号を表示できません。1ページずつ読み進めることはできます。個々のコメントへのリンクはまもなく使えるようになります。
no-match = 条件に合うコメントはありません。
nobody = この商品にはまだコメントがありません。
all-comments = この商品のすべてのコメント

filters = 絞り込み
active-filters = 選択中の条件
remove = 解除：
remove-all = すべて解除
chosen-language = 言語：{ $language }
chosen-ratings = 評価：{ $ratings }
all-languages = すべての言語
more-languages = 他{ $count }言語

anonymous = 匿名
comment-of = コメント投稿者：
link-to-comment = このコメントへのリンク：
show-rest = 続きを読む
photo = 写真{ $number }

newest-positive-and-critical = 最新の高評価と低評価
most-recent-positive = 最新の高評価
most-recent-critical = 最新の低評価
all-positive = 高評価のコメントをすべて見る
all-critical = 低評価のコメントをすべて見る

pages-before-comments = ページ（コメントの前）
other-pages = 他のページ
newest = 最新
oldest = 最古
page-1-is-oldest = 1ページが最古
page-to-go = ページ
go = 移動

## The list of products, and the start page

products = 商品
title-most-commented = コメントが多い商品
words-most-commented = コメントが多い順
description-products = コメントから見た商品一覧：{ $list }。
products-of = 全{ $total }商品中{ $from }～{ $to }
no-products = コメントのある商品はまだありません。
newest-comment = 最新：
title-start = Pagemark：商品のコメント
about = 商品のコメントを絞り込んで読めます。ページ番号は変わらないアドレスです。
all-products = コメントのあるすべての商品
try = 試してみる
demo = これはデモです。実在しない店の3つの商品（エスプレッソマシン、ミルクジャグ、本）に、生成されたコメントが約2,000件あります。コメントの各ページの最後に、技術者向けの行があります。
try-newest = 最新のコメント（長いものは開いて読めます）
try-page = 7ページ：新しいコメントが増えても、このアドレスの内容は変わりません
try-filter = 評価4または5の英語のコメント：絞り込みは1つのキーです
try-right-to-left = 右から左に読むコメント
try-slash = IDにスラッシュを含む商品
try-json = 批判的なコメントのJSON（応答にかかったコスト付き）
products-away = 現在、商品一覧を表示できません。
base-path = 各パスの前に { $path } が付きます。
product-id = PRODUCT の部分に商品のIDをパーセントエンコードして入れてください。スラッシュは %2F になります。
help-comments = すべてのコメント（新しい順）。
help-page-from-oldest = 古い方から数えて7ページ目。
help-oldest = 古い順。
help-language = 1つの言語のコメント（BCP 47の言語タグ）。「~」はすべての言語。
help-ratings = いずれかの評価のコメント。
help-comment = 1件のコメントがあるページ。
help-json-comments = 同じ内容のデータ。続きは links.next にあります。
help-json-products = コメントのある商品。
help-json-stats = 評価と言語ごとのコメント件数。
help-json-post = 新しいコメント。Authorization: Bearer TOKEN が必要です。
help-readyz = データストアの状態。

## Errors

heading-mistake = アドレスに誤りがあります
heading-nothing = このページはありません
heading-away = 現在このページを表示できません
heading-error = エラー { $status }
last-page = 最後のページ（{ $page }ページ）
page-1 = 1ページ
page-1-oldest = 1ページ（最も古いコメント）
first-page = 最初のページ
meanwhile-first-page = 現在、ページ番号だけが使えません。一覧の最初のページは読めます。
meanwhile-others = ここにコメントは見つかりませんでしたが、ある可能性があります。現在は確認できません。コメントのあるページは読めます。
error-mistake = 誤りのある部分：{ $part }。
part-page = ページ番号
part-order = 並び順
part-date = 日付
part-cursor = カーソル
part-language = 言語
part-rating = 評価
part-product = 商品
part-id = コメント
error-no-route = このアドレスには何もありません。
error-method = このアドレスは { $allow } だけを受け付けます。
error-no-comment = このコメントはありません。
error-no-product = この商品はありません。
error-past-the-end = { $page }ページはありません。最後は{ $last }ページです。
error-past-all-numbers = { $page }ページはありません。番号の付いたページはまだなく、すべてのコメントは番号のないページにあります。
error-past-the-archive = { $page }ページはありません。番号の付いた最新のページは{ $last }ページで、それより新しいコメントは番号のないページにあります。
error-index = ページ番号と件数が一時的に利用できないため、現在表示できません。後でもう一度お試しください。
error-not-yet-listed = この一覧のコメントをページに振り分けている途中です。このページにも表示されるかもしれません。少し待ってからもう一度お試しください。
error-table = コメントを一時的に読み込めません。後でもう一度お試しください。
error-overloaded = アクセスが集中しています。後でもう一度お試しください。
error-timed-out = 時間内に処理できませんでした。書き込まれたかどうかは不明です。後でもう一度お試しください。
error-internal = サーバーでエラーが発生し、記録されました。
verified = 確認済み
reply-of = 返信：
the-shop = ショップ
