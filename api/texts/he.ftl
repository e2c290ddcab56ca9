# The texts of pages in Hebrew. See en.ftl for what each of them is for.

## Numbers, dates and lists

number = { $number }
percent = { "\u200E" }{ $percent }%{ "\u200E" }
separator = { ", " }
sentence-separator = { " " }
or = { $first } או { $last }
month = { $month ->
    [1] ינו׳
    [2] פבר׳
    [3] מרץ
    [4] אפר׳
    [5] מאי
    [6] יוני
    [7] יולי
    [8] אוג׳
    [9] ספט׳
    [10] אוק׳
    [11] נוב׳
   *[12] דצמ׳
}
day = { $day } ב{ month } { $year }
days = { $from } עד { $to }

comments = { $count ->
    [one] תגובה אחת
    [two] שתי תגובות
   *[other] { $count } תגובות
}
comments-noun = { $count ->
    [one] תגובה
   *[other] תגובות
}
out-of-5 = { $rating } מתוך 5
of-5 = מתוך 5

## Frame of all pages

skip = דילוג לתוכן
start-page = דף הבית
try-again = ניסיון נוסף
pages = עמודים
rating = דירוג
language = שפה
page = עמוד
newer = חדשות יותר
older = ישנות יותר
previous = הקודם
next = הבא
step-page = (עמוד)

## A page of comments

comments-on = תגובות על
title-comments = תגובות על { $name }
title-no-comments = אין תגובות על { $name }
in-language = ב{ $language }
rated = בדירוג { $ratings }
page-number = עמוד { $page }
page-of-pages = עמוד { $page } מתוך { $pages }
page-of-archive = עמוד { $page } מתוך { $pages }, מהישן לחדש
continued = המשך
newest-first = מהחדשה לישנה
oldest-first = מהישנה לחדשה
highest-first = מהדירוג הגבוה לנמוך
lowest-first = מהדירוג הנמוך לגבוה
comments-of-filter = { $comments } { $filter }
some-comments = תגובות
the-newest-comments = התגובות החדשות ביותר
the-oldest-comments = התגובות הישנות ביותר
range = { $text }: { $days }
range-newest = { $text }: החדשות ביותר, { $days }

description-subject = { $subject }.
description-rated = דירוג ממוצע { $average } מתוך 5, לפי { $count ->
    [one] תגובה אחת
    [two] שתי תגובות
   *[other] { $count } תגובות
}.
description-range = תגובות { $from } עד { $to }, { $order }: { $days }.
description-range-of = תגובות { $from } עד { $to } מתוך { $total }, { $order }: { $days }.
description-range-from-oldest = תגובות { $from } עד { $to } מהישנה ביותר, { $order }: { $days }.

average = { $average }
average-out-of-5 = מתוך 5, לפי { $count ->
    [one] תגובה אחת
    [two] שתי תגובות
   *[other] { $count } תגובות
}
average-in-language = ב{ $language }:
average-from = לפי { $count ->
    [one] תגובה אחת
    [two] שתי תגובות
   *[other] { $count } תגובות
}
view-product = לעמוד המוצר
write = כתיבת תגובה
show-newest-first = הצגת החדשות קודם
show-oldest-first = הצגת הישנות קודם
show-highest-first = הצגת הדירוג הגבוה קודם
show-lowest-first = הצגת הדירוג הנמוך קודם
feed-of-comments = עדכוני התגובות האלה (Atom)
degraded = הסכומים ומספרי העמודים אינם זמינים כרגע. עדיין אפשר לדפדף עמוד אחר עמוד; הקישורים לתגובות בודדות יחזרו לפעול בקרוב.
no-match = אין תגובה על המוצר הזה שמתאימה למסננים האלה.
nobody = עדיין אין תגובות על המוצר הזה.
all-comments = כל התגובות על המוצר הזה

filters = סינון
active-filters = מסננים פעילים
remove = הסרה:
remove-all = הסרת כל המסננים
chosen-language = שפה: { $language }
chosen-ratings = דירוג: { $ratings }
all-languages = כל השפות
more-languages = { $count ->
    [one] עוד שפה אחת
    [two] עוד שתי שפות
   *[other] עוד { $count } שפות
}

anonymous = אנונימי
comment-of = תגובה מאת
link-to-comment = קישור לתגובה הזאת מתאריך
show-rest = הצגת ההמשך
photo = תמונה { $number }

newest-positive-and-critical = החיובית והביקורתית האחרונות
most-recent-positive = החיובית האחרונה
most-recent-critical = הביקורתית האחרונה
all-positive = כל התגובות החיוביות
all-critical = כל התגובות הביקורתיות

pages-before-comments = עמודים, לפני התגובות
other-pages = עמודים אחרים
newest = החדשות ביותר
oldest = הישנות ביותר
page-1-is-oldest = עמוד 1: הישן ביותר
page-to-go = עמוד
go = מעבר

## The list of products, and the start page

products = מוצרים
title-most-commented = המוצרים עם הכי הרבה תגובות
words-most-commented = הכי הרבה תגובות
description-products = מוצרים לפי התגובות עליהם: { $list }.
products-of = מוצרים { $from } עד { $to } מתוך { $total }
no-products = עדיין אין תגובות על אף מוצר.
newest-comment = האחרונה:
title-start = Pagemark: תגובות על מוצרים
about = תגובות על מוצרים, עם סינון ועם מספרי עמודים שהם כתובות של ממש.
all-products = כל המוצרים שיש עליהם תגובות
try = מה כדאי לנסות
demo = זוהי הדגמה: כ-2,000 תגובות שנוצרו על שלושה מוצרים של חנות שאינה קיימת, מכונת אספרסו, כד חלב וספר. כל עמוד של תגובות מסתיים בשורה למהנדסים.
try-newest = התגובות החדשות ביותר, ובהן אחת ארוכה שנפתחת בלחיצה
try-page = עמוד 7, שכתובתו שומרת על תגובותיו גם כשמתווספות אחרות
try-filter = תגובות באנגלית עם דירוג 4 או 5: סינון הוא מפתח אחד
try-right-to-left = תגובות שנקראות מימין לשמאל
try-slash = מוצר שיש קו נטוי במזהה שלו
try-json = תגובות ביקורתיות כ-JSON, עם מה שעלתה התשובה
products-away = רשימת המוצרים אינה זמינה כרגע.
base-path = לפני כל נתיב בא { $path }.
product-id = במקום PRODUCT יש לכתוב את המזהה של המוצר בקידוד אחוזים: לוכסן הופך ל־%2F.
help-comments = כל התגובות, מהחדשה לישנה.
help-page-from-oldest = עמוד 7, בספירה מהתגובה הישנה ביותר.
help-oldest = הישנות קודם.
help-language = התגובות בשפה אחת (תג BCP 47), או בכל שפה: ~.
help-ratings = התגובות עם אחד מכמה דירוגים.
help-comment = העמוד שמציג תגובה אחת.
help-json-comments = אותו הדבר כנתונים; ההמשך ב־links.next.
help-json-products = המוצרים שיש עליהם תגובות.
help-json-stats = כמה תגובות יש, לפי דירוג ולפי שפה.
help-json-post = תגובה חדשה, עם Authorization: Bearer TOKEN.
help-readyz = מצב מאגרי הנתונים.

## Errors

heading-mistake = יש טעות בכתובת הזאת
heading-nothing = אין עמוד כזה
heading-away = העמוד הזה אינו זמין כרגע
heading-error = שגיאה { $status }
last-page = העמוד האחרון, עמוד { $page }
page-1 = עמוד 1
page-1-oldest = עמוד 1, עם התגובות הישנות ביותר
first-page = העמוד הראשון
meanwhile-first-page = כרגע חסרים רק מספרי העמודים. בינתיים אפשר לקרוא את העמוד הראשון ברשימה.
meanwhile-others = לא נמצאו כאן תגובות, אבל ייתכן שיש: אי אפשר לבדוק זאת כרגע. בינתיים אפשר לקרוא עמודים שיש בהם תגובות.
error-mistake = החלק הזה שגוי: { $part }.
part-page = מספר העמוד
part-order = הסדר
part-date = התאריך
part-cursor = הסמן
part-language = השפה
part-rating = הדירוג
part-product = המוצר
part-id = התגובה
error-no-route = אין דבר בכתובת הזאת.
error-method = הכתובת הזאת מקבלת רק { $allow }.
error-no-comment = אין תגובה כזאת.
error-no-product = אין מוצר כזה.
error-past-the-end = עמוד { $page } הוא מעבר לסוף: האחרון הוא עמוד { $last }.
error-past-all-numbers = עמוד { $page } הוא מעבר לסוף: לאף עמוד אין מספר; כל התגובות נמצאות בעמוד בלי מספר.
error-past-the-archive = עמוד { $page } הוא מעבר לסוף: העמוד הממוספר החדש ביותר הוא { $last }; תגובות חדשות יותר נמצאות בעמוד בלי מספר.
error-index = מספרי העמודים והסכומים אינם זמינים זמנית, ולכן אין כרגע תשובה. אפשר לנסות שוב מאוחר יותר.
error-not-yet-listed = תגובות מהרשימה הזאת עדיין משובצות בעמודים שלה, ואולי גם בעמוד הזה. אפשר לנסות שוב עוד רגע.
error-table = התגובות אינן נגישות זמנית. אפשר לנסות שוב מאוחר יותר.
error-overloaded = יש כרגע יותר מדי בקשות. אפשר לנסות שוב מאוחר יותר.
error-timed-out = הבקשה נמשכה זמן רב מדי. ייתכן שמשהו נכתב וייתכן שלא. אפשר לנסות שוב מאוחר יותר.
error-internal = השרת עשה שגיאה; היא נרשמה ביומן.
verified = מאומת
reply-of = תגובה:
the-shop = החנות
