# A preset: the messages of ../he.ftl with reviews in place of comments. A site chooses it by its file messages/preset.

comments = { $count ->
    [one] ביקורת אחת
    [two] שתי ביקורות
   *[other] { $count } ביקורות
}
comments-noun = { $count ->
    [one] ביקורת
   *[other] ביקורות
}
comments-on = ביקורות על
title-comments = ביקורות על { $name }
title-no-comments = אין ביקורות על { $name }
some-comments = ביקורות
the-newest-comments = הביקורות החדשות ביותר
the-oldest-comments = הביקורות הישנות ביותר
description-rated = דירוג ממוצע { $average } מתוך 5, לפי { $count ->
    [one] ביקורת אחת
    [two] שתי ביקורות
   *[other] { $count } ביקורות
}.
description-range = ביקורות { $from } עד { $to }, { $order }: { $days }.
description-range-of = ביקורות { $from } עד { $to } מתוך { $total }, { $order }: { $days }.
description-range-from-oldest = ביקורות { $from } עד { $to } מהישנה ביותר, { $order }: { $days }.
average-out-of-5 = מתוך 5, לפי { $count ->
    [one] ביקורת אחת
    [two] שתי ביקורות
   *[other] { $count } ביקורות
}
average-from = לפי { $count ->
    [one] ביקורת אחת
    [two] שתי ביקורות
   *[other] { $count } ביקורות
}
feed-of-comments = עדכוני הביקורות האלה (Atom)
degraded = הסכומים ומספרי העמודים אינם זמינים כרגע. עדיין אפשר לדפדף עמוד אחר עמוד; הקישורים לביקורות בודדות יחזרו לפעול בקרוב.
no-match = אין ביקורת על המוצר הזה שמתאימה למסננים האלה.
nobody = עדיין אין ביקורות על המוצר הזה.
all-comments = כל הביקורות על המוצר הזה
write = כתיבת ביקורת
comment-of = ביקורת מאת
link-to-comment = קישור לביקורת הזאת מתאריך
all-positive = כל הביקורות החיוביות
all-critical = כל הביקורות השליליות
pages-before-comments = עמודים, לפני הביקורות
title-most-commented = המוצרים עם הכי הרבה ביקורות
words-most-commented = הכי הרבה ביקורות
description-products = מוצרים לפי הביקורות עליהם: { $list }.
no-products = עדיין אין ביקורות על אף מוצר.
title-start = Pagemark: ביקורות על מוצרים
about = ביקורות על מוצרים, עם סינון ועם מספרי עמודים שהם כתובות של ממש.
all-products = כל המוצרים שיש עליהם ביקורות
help-comments = כל הביקורות, מהחדשה לישנה.
help-page-from-oldest = עמוד 7, בספירה מהביקורת הישנה ביותר.
help-language = הביקורות בשפה אחת (תג BCP 47), או בכל שפה: ~.
help-ratings = הביקורות עם אחד מכמה דירוגים.
help-comment = העמוד שמציג ביקורת אחת.
help-json-products = המוצרים שיש עליהם ביקורות.
help-json-stats = כמה ביקורות יש, לפי דירוג ולפי שפה.
help-json-post = ביקורת חדשה, עם Authorization: Bearer TOKEN.
page-1-oldest = עמוד 1, עם הביקורות הישנות ביותר
meanwhile-others = לא נמצאו כאן ביקורות, אבל ייתכן שיש: אי אפשר לבדוק זאת כרגע. בינתיים אפשר לקרוא עמודים שיש בהם ביקורות.
part-id = הביקורת
error-no-comment = אין ביקורת כזאת.
error-past-all-numbers = עמוד { $page } הוא מעבר לסוף: לאף עמוד אין מספר; כל הביקורות נמצאות בעמוד בלי מספר.
error-past-the-archive = עמוד { $page } הוא מעבר לסוף: העמוד הממוספר החדש ביותר הוא { $last }; ביקורות חדשות יותר נמצאות בעמוד בלי מספר.
error-not-yet-listed = ביקורות מהרשימה הזאת עדיין משובצות בעמודים שלה, ואולי גם בעמוד הזה. אפשר לנסות שוב עוד רגע.
error-table = הביקורות אינן נגישות זמנית. אפשר לנסות שוב מאוחר יותר.
