# A preset: the messages of ../de.ftl with reviews in place of comments. A site chooses it by its file messages/preset.

comments = { $count ->
    [one] { $count } Rezension
   *[other] { $count } Rezensionen
}
comments-noun = { $count ->
    [one] Rezension
   *[other] Rezensionen
}
comments-on = Rezensionen zu
title-comments = Rezensionen zu { $name }
title-no-comments = Keine Rezensionen zu { $name }
some-comments = Rezensionen
the-newest-comments = Die neuesten Rezensionen
the-oldest-comments = Die ältesten Rezensionen
description-rated = Mit { $average } von 5 bewertet, aus { $count ->
    [one] { $count } Rezension
   *[other] { $count } Rezensionen
}.
description-range = Rezensionen { $from } bis { $to }, { $order }: { $days }.
description-range-of = Rezensionen { $from } bis { $to } von { $total }, { $order }: { $days }.
description-range-from-oldest = Rezensionen { $from } bis { $to }, von der ältesten an gezählt, { $order }: { $days }.
average-out-of-5 = von 5, aus { $count ->
    [one] { $count } Rezension
   *[other] { $count } Rezensionen
}
average-from = aus { $count ->
    [one] { $count } Rezension
   *[other] { $count } Rezensionen
}
feed-of-comments = Feed dieser Rezensionen
degraded = Anzahlen und Seitenzahlen fehlen für einen Moment. Blättern geht weiterhin Seite für Seite; Links zu einzelnen Rezensionen funktionieren bald wieder.
no-match = Keine Rezension zu diesem Produkt passt zu diesen Filtern.
nobody = Zu diesem Produkt gibt es noch keine Rezensionen.
all-comments = Alle Rezensionen zu diesem Produkt
write = Rezension schreiben
comment-of = Rezension von
link-to-comment = Link zu dieser Rezension vom
all-positive = Alle positiven Rezensionen
all-critical = Alle kritischen Rezensionen
pages-before-comments = Seiten, vor den Rezensionen
title-most-commented = Meistrezensierte Produkte
words-most-commented = meistrezensiert
description-products = Produkte nach ihren Rezensionen: { $list }.
no-products = Noch kein Produkt hat Rezensionen.
newest-comment = Neueste:
title-start = Pagemark: Rezensionen zu Produkten
about = Rezensionen zu Produkten, mit Filtern und mit Seitenzahlen, die echte Adressen sind.
all-products = Alle Produkte mit Rezensionen
help-comments = Alle Rezensionen, neueste zuerst.
help-page-from-oldest = Seite 7, von der ältesten an gezählt.
help-comment = Die Seite, die eine bestimmte Rezension zeigt.
help-json-products = Die Produkte, die Rezensionen haben.
help-json-stats = Wie viele Rezensionen es gibt, nach Bewertung und Sprache.
help-json-post = Eine neue Rezension, mit Authorization: Bearer TOKEN.
page-1-oldest = Seite 1, mit den ältesten Rezensionen
meanwhile-others = Hier wurden keine Rezensionen gefunden, es kann aber welche geben: Das lässt sich im Moment nicht prüfen. Seiten mit Rezensionen sind weiterhin lesbar.
part-id = die Rezension
error-no-comment = Diese Rezension gibt es nicht.
error-past-all-numbers = Seite { $page } liegt hinter dem Ende: Noch hat keine Seite eine Nummer; alle Rezensionen stehen auf der Seite ohne Nummer.
error-past-the-archive = Seite { $page } liegt hinter dem Ende: Die neueste nummerierte Seite ist { $last }; neuere Rezensionen stehen auf der Seite ohne Nummer.
error-not-yet-listed = Rezensionen dieser Liste werden gerade noch in ihre Seiten einsortiert, vielleicht auch in diese. Versuchen Sie es gleich noch einmal.
error-table = Die Rezensionen sind vorübergehend nicht erreichbar. Versuchen Sie es später noch einmal.
