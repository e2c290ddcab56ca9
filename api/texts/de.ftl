# The texts of pages in German. See en.ftl for what each of them is for.

## Numbers, dates and lists

number = { $number }
percent = { $percent } %
separator = { ", " }
sentence-separator = { " " }
or = { $first } oder { $last }
month = { $month ->
    [1] Jan.
    [2] Feb.
    [3] März
    [4] Apr.
    [5] Mai
    [6] Juni
    [7] Juli
    [8] Aug.
    [9] Sept.
    [10] Okt.
    [11] Nov.
   *[12] Dez.
}
day = { $day }. { month } { $year }
days = { $from } bis { $to }

comments = { $count ->
    [one] { $count } Kommentar
   *[other] { $count } Kommentare
}
comments-noun = { $count ->
    [one] Kommentar
   *[other] Kommentare
}
out-of-5 = { $rating } von 5
of-5 = von 5

## Frame of all pages

skip = Zum Inhalt springen
start-page = Startseite
try-again = Erneut versuchen
pages = Seiten
rating = Bewertung
language = Sprache
page = Seite
newer = Neuere
older = Ältere
previous = Zurück
next = Weiter
step-page = (Seite)

## A page of comments

comments-on = Kommentare zu
title-comments = Kommentare zu { $name }
title-no-comments = Keine Kommentare zu { $name }
in-language = auf { $language }
rated = Bewertung { $ratings }
page-number = Seite { $page }
page-of-pages = Seite { $page } von { $pages }
page-of-archive = Seite { $page } von { $pages }, ab der ältesten
continued = Fortsetzung
newest-first = neueste zuerst
oldest-first = älteste zuerst
highest-first = höchste Bewertung zuerst
lowest-first = niedrigste Bewertung zuerst
comments-of-filter = { $comments } { $filter }
some-comments = Kommentare
the-newest-comments = Die neuesten Kommentare
the-oldest-comments = Die ältesten Kommentare
range = { $text }: { $days }
range-newest = { $text }: die neuesten, { $days }

description-subject = { $subject }.
description-rated = Mit { $average } von 5 bewertet, aus { $count ->
    [one] { $count } Kommentar
   *[other] { $count } Kommentaren
}.
description-range = Kommentare { $from } bis { $to }, { $order }: { $days }.
description-range-of = Kommentare { $from } bis { $to } von { $total }, { $order }: { $days }.
description-range-from-oldest = Kommentare { $from } bis { $to }, vom ältesten an gezählt, { $order }: { $days }.

average = { $average }
average-out-of-5 = von 5, aus { $count ->
    [one] { $count } Kommentar
   *[other] { $count } Kommentaren
}
average-in-language = Auf { $language }:
average-from = aus { $count ->
    [one] { $count } Kommentar
   *[other] { $count } Kommentaren
}
view-product = Zum Produkt
write = Kommentar schreiben
show-newest-first = Neueste zuerst anzeigen
show-oldest-first = Älteste zuerst anzeigen
show-highest-first = Höchste Bewertung zuerst anzeigen
show-lowest-first = Niedrigste Bewertung zuerst anzeigen
feed-of-comments = Feed dieser Kommentare
degraded = Anzahlen und Seitenzahlen fehlen für einen Moment. Blättern geht weiterhin Seite für Seite; Links zu einzelnen Kommentaren funktionieren bald wieder.
no-match = Kein Kommentar zu diesem Produkt passt zu diesen Filtern.
nobody = Zu diesem Produkt gibt es noch keine Kommentare.
all-comments = Alle Kommentare zu diesem Produkt

filters = Filter
active-filters = Aktive Filter
remove = Entfernen:
remove-all = Alle Filter entfernen
chosen-language = Sprache: { $language }
chosen-ratings = Bewertung: { $ratings }
all-languages = Alle Sprachen
more-languages = { $count ->
    [one] { $count } weitere Sprache
   *[other] { $count } weitere Sprachen
}

anonymous = Anonym
comment-of = Kommentar von
link-to-comment = Link zu diesem Kommentar vom
show-rest = Mehr anzeigen
photo = Foto { $number }

newest-positive-and-critical = Neueste positive und kritische Stimme
most-recent-positive = Neueste positive Stimme
most-recent-critical = Neueste kritische Stimme
all-positive = Alle positiven Kommentare
all-critical = Alle kritischen Kommentare

pages-before-comments = Seiten, vor den Kommentaren
other-pages = Andere Seiten
newest = Neueste
oldest = Älteste
page-1-is-oldest = Seite 1: älteste
page-to-go = Seite
go = Los

## The list of products, and the start page

products = Produkte
title-most-commented = Meistkommentierte Produkte
words-most-commented = meistkommentiert
description-products = Produkte nach ihren Kommentaren: { $list }.
products-of = Produkte { $from } bis { $to } von { $total }
no-products = Noch kein Produkt hat Kommentare.
newest-comment = Neuester:
title-start = Pagemark: Kommentare zu Produkten
about = Kommentare zu Produkten, mit Filtern und mit Seitenzahlen, die echte Adressen sind.
all-products = Alle Produkte mit Kommentaren
try = Zum Ausprobieren
demo = Dies ist die Demo: etwa 2.000 erzeugte Kommentare zu drei Produkten eines Ladens, den es nicht gibt: einer Espressomaschine, einem Milchkännchen und einem Buch. Jede Seite mit Kommentaren endet mit einer Zeile für Techniker.
try-newest = Die neuesten Kommentare, mit einem langen, der sich aufklappen lässt
try-page = Seite 7, deren Adresse ihre Kommentare behält, während andere dazukommen
try-filter = Kommentare auf Englisch mit Bewertung 4 oder 5: ein Filter ist ein Schlüssel
try-right-to-left = Kommentare, die man von rechts nach links liest
try-slash = Ein Produkt mit einem Schrägstrich in seiner Kennung
try-json = Kritische Kommentare als JSON, mit den Kosten der Antwort
products-away = Die Liste der Produkte ist für einen Moment nicht verfügbar.
base-path = Vor jedem Pfad steht { $path }.
product-id = Setzen Sie die ID Ihres Produkts, prozentkodiert, anstelle von PRODUCT ein: Ein Schrägstrich darin wird zu %2F.
help-comments = Alle Kommentare, neueste zuerst.
help-page-from-oldest = Seite 7, vom ältesten an gezählt.
help-oldest = Die ältesten zuerst.
help-language = Die in einer Sprache (BCP-47-Kürzel) oder in allen: ~.
help-ratings = Die mit einer von mehreren Bewertungen.
help-comment = Die Seite, die einen bestimmten Kommentar zeigt.
help-json-comments = Dasselbe als Daten; weiter mit links.next.
help-json-products = Die Produkte, die Kommentare haben.
help-json-stats = Wie viele Kommentare es gibt, nach Bewertung und Sprache.
help-json-post = Ein neuer Kommentar, mit Authorization: Bearer TOKEN.
help-readyz = Wie es den Datenspeichern geht.

## Errors

heading-mistake = In dieser Adresse ist ein Fehler
heading-nothing = Diese Seite gibt es nicht
heading-away = Diese Seite ist für einen Moment nicht verfügbar
heading-error = Fehler { $status }
last-page = Die letzte Seite, Seite { $page }
page-1 = Seite 1
page-1-oldest = Seite 1, mit den ältesten Kommentaren
first-page = Die erste Seite
meanwhile-first-page = Im Moment fehlen nur die Seitenzahlen. Die erste Seite der Liste ist weiterhin lesbar.
meanwhile-others = Hier wurden keine Kommentare gefunden, es kann aber welche geben: Das lässt sich im Moment nicht prüfen. Seiten mit Kommentaren sind weiterhin lesbar.
error-mistake = Dieser Teil davon ist falsch: { $part }.
part-page = die Seitenzahl
part-order = die Reihenfolge
part-date = das Datum
part-cursor = der Cursor
part-language = die Sprache
part-rating = die Bewertung
part-product = das Produkt
part-id = der Kommentar
error-no-route = Unter dieser Adresse gibt es nichts.
error-method = Diese Adresse nimmt nur { $allow } an.
error-no-comment = Diesen Kommentar gibt es nicht.
error-no-product = Dieses Produkt gibt es nicht.
error-past-the-end = Seite { $page } liegt hinter dem Ende: Die letzte ist Seite { $last }.
error-past-all-numbers = Seite { $page } liegt hinter dem Ende: Noch hat keine Seite eine Nummer; alle Kommentare stehen auf der Seite ohne Nummer.
error-past-the-archive = Seite { $page } liegt hinter dem Ende: Die neueste nummerierte Seite ist { $last }; neuere Kommentare stehen auf der Seite ohne Nummer.
error-index = Seitenzahlen und Anzahlen sind vorübergehend nicht verfügbar, deshalb fehlt im Moment die Antwort. Versuchen Sie es später noch einmal.
error-not-yet-listed = Kommentare dieser Liste werden gerade noch in ihre Seiten einsortiert, vielleicht auch in diese. Versuchen Sie es gleich noch einmal.
error-table = Die Kommentare sind vorübergehend nicht erreichbar. Versuchen Sie es später noch einmal.
error-overloaded = Im Moment gibt es zu viele Anfragen. Versuchen Sie es später noch einmal.
error-timed-out = Die Anfrage hat zu lange gedauert. Ob etwas geschrieben wurde, ist ungewiss. Versuchen Sie es später noch einmal.
error-internal = Der Server hat einen Fehler gemacht; er ist protokolliert.
verified = Verifiziert
reply-of = Antwort:
the-shop = der Shop
