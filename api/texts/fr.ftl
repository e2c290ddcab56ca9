# The texts of pages in French. See en.ftl for what each of them is for.

## Numbers, dates and lists

number = { $number }
percent = { $percent } %
separator = { ", " }
sentence-separator = { " " }
or = { $first } ou { $last }
month = { $month ->
    [1] janv.
    [2] févr.
    [3] mars
    [4] avr.
    [5] mai
    [6] juin
    [7] juil.
    [8] août
    [9] sept.
    [10] oct.
    [11] nov.
   *[12] déc.
}
day = { $day } { month } { $year }
days = du { $from } au { $to }

comments = { $count ->
    [one] { $count } commentaire
   *[other] { $count } commentaires
}
comments-noun = { $count ->
    [one] commentaire
   *[other] commentaires
}
out-of-5 = { $rating } sur 5
of-5 = sur 5

## Frame of all pages

skip = Aller au contenu
start-page = Page d’accueil
try-again = Réessayer
pages = Pages
rating = Note
language = Langue
page = Page
newer = Plus récents
older = Plus anciens
previous = Précédent
next = Suivant
step-page = (page)

## A page of comments

comments-on = Commentaires sur
title-comments = Commentaires sur { $name }
title-no-comments = Aucun commentaire sur { $name }
in-language = en { $language }
rated = notés { $ratings }
page-number = page { $page }
page-of-pages = page { $page } sur { $pages }
page-of-archive = page { $page } sur { $pages } depuis la plus ancienne
continued = suite
newest-first = du plus récent au plus ancien
oldest-first = du plus ancien au plus récent
highest-first = de la meilleure note à la moins bonne
lowest-first = de la moins bonne note à la meilleure
comments-of-filter = { $comments } { $filter }
some-comments = Commentaires
the-newest-comments = Les commentaires les plus récents
the-oldest-comments = Les commentaires les plus anciens
range = { $text } : { $days }
range-newest = { $text } : les plus récents, { $days }

description-subject = { $subject }.
description-rated = Note moyenne de { $average } sur 5, d’après { $count ->
    [one] { $count } commentaire
   *[other] { $count } commentaires
}.
description-range = Commentaires { $from } à { $to }, { $order } : { $days }.
description-range-of = Commentaires { $from } à { $to } sur { $total }, { $order } : { $days }.
description-range-from-oldest = Commentaires { $from } à { $to } depuis le plus ancien, { $order } : { $days }.

average = { $average }
average-out-of-5 = sur 5, d’après { $count ->
    [one] { $count } commentaire
   *[other] { $count } commentaires
}
average-in-language = En { $language } :
average-from = d’après { $count ->
    [one] { $count } commentaire
   *[other] { $count } commentaires
}
view-product = Voir le produit
write = Écrire un commentaire
show-newest-first = Afficher d’abord les plus récents
show-oldest-first = Afficher d’abord les plus anciens
show-highest-first = Afficher d’abord les meilleures notes
show-lowest-first = Afficher d’abord les moins bonnes notes
feed-of-comments = Flux de ces commentaires
degraded = Les totaux et les numéros de page manquent pour le moment. On peut toujours avancer page par page ; les liens vers un commentaire fonctionneront bientôt à nouveau.
no-match = Aucun commentaire sur ce produit ne correspond à ces filtres.
nobody = Personne n’a encore commenté ce produit.
all-comments = Tous les commentaires sur ce produit

filters = Filtres
active-filters = Filtres actifs
remove = Retirer
remove-all = Retirer tous les filtres
chosen-language = Langue : { $language }
chosen-ratings = Note : { $ratings }
all-languages = Toutes les langues
more-languages = { $count ->
    [one] { $count } autre langue
   *[other] { $count } autres langues
}

anonymous = Anonyme
comment-of = Commentaire de
link-to-comment = lien vers ce commentaire du
show-rest = Afficher la suite
photo = Photo n° { $number }

newest-positive-and-critical = Derniers avis positif et critique
most-recent-positive = Dernier avis positif
most-recent-critical = Dernier avis critique
all-positive = Tous les commentaires positifs
all-critical = Tous les commentaires critiques

pages-before-comments = Pages, avant les commentaires
other-pages = Autres pages
newest = Les plus récents
oldest = Les plus anciens
page-1-is-oldest = Page 1 : plus ancienne
page-to-go = Page
go = Aller

## The list of products, and the start page

products = Produits
title-most-commented = Produits les plus commentés
words-most-commented = les plus commentés
description-products = Produits d’après leurs commentaires : { $list }.
products-of = Produits { $from } à { $to } sur { $total }
no-products = Aucun produit n’a encore de commentaires.
newest-comment = Dernier :
title-start = Pagemark : commentaires sur des produits
about = Commentaires sur des produits, avec des filtres et des numéros de page qui sont de vraies adresses.
all-products = Tous les produits commentés
try = À essayer
demo = Voici la démonstration : quelque 2 000 commentaires générés sur trois produits d’une boutique imaginaire, une machine à expresso, un pot à lait et un livre. Chaque page de commentaires se termine par une ligne pour les ingénieurs.
try-newest = Les commentaires les plus récents, dont un long qui se déplie
try-page = La page 7, dont l’adresse garde ses commentaires quand d’autres arrivent
try-filter = Les commentaires en anglais notés 4 ou 5 : un filtre est une seule clé
try-right-to-left = Des commentaires qui se lisent de droite à gauche
try-slash = Un produit dont l’identifiant contient une barre oblique
try-json = Les commentaires critiques en JSON, avec le coût de la réponse
products-away = La liste des produits est indisponible pour le moment.
base-path = Chaque chemin commence par { $path }.
product-id = Mettez l’identifiant de votre produit, avec encodage-pourcent, à la place de PRODUCT : une barre oblique y devient %2F.
help-comments = Tous les commentaires, du plus récent au plus ancien.
help-page-from-oldest = La page 7, comptée depuis le plus ancien.
help-oldest = Les plus anciens d’abord.
help-language = Ceux d’une langue (une étiquette BCP 47), ou de toutes : ~.
help-ratings = Ceux qui ont l’une de plusieurs notes.
help-comment = La page qui montre un commentaire donné.
help-json-comments = La même chose sous forme de données ; suivez links.next.
help-json-products = Les produits qui ont des commentaires.
help-json-stats = Le nombre de commentaires, par note et par langue.
help-json-post = Un nouveau commentaire, avec Authorization: Bearer TOKEN.
help-readyz = L’état des bases de données.

## Errors

heading-mistake = Il y a une erreur dans cette adresse
heading-nothing = Cette page n’existe pas
heading-away = Cette page est indisponible pour le moment
heading-error = Erreur { $status }
last-page = La dernière page, page { $page }
page-1 = Page 1
page-1-oldest = Page 1, avec les commentaires les plus anciens
first-page = La première page
meanwhile-first-page = Seuls les numéros de page manquent pour le moment. En attendant, la première page de la liste reste lisible.
meanwhile-others = Aucun commentaire n’a été trouvé ici, mais il y en a peut-être : impossible de le vérifier pour le moment. Les pages qui ont des commentaires restent lisibles.
error-mistake = Cette partie est incorrecte : { $part }.
part-page = le numéro de page
part-order = l’ordre
part-date = la date
part-cursor = le curseur
part-language = la langue
part-rating = la note
part-product = le produit
part-id = le commentaire
error-no-route = Il n’y a rien à cette adresse.
error-method = Cette adresse n’accepte que { $allow }.
error-no-comment = Ce commentaire n’existe pas.
error-no-product = Ce produit n’existe pas.
error-past-the-end = La page { $page } est au-delà de la fin : la dernière est la page { $last }.
error-past-all-numbers = La page { $page } est au-delà de la fin : aucune page n’a de numéro ; tous les commentaires sont sur la page sans numéro.
error-past-the-archive = La page { $page } est au-delà de la fin : la page numérotée la plus récente est la { $last } ; les commentaires plus récents sont sur la page sans numéro.
error-index = Les numéros de page et les totaux sont momentanément indisponibles, la réponse manque donc pour l’instant. Réessayez plus tard.
error-not-yet-listed = Des commentaires de cette liste sont en train d’être rangés dans ses pages, et peut-être dans celle-ci. Réessayez dans un instant.
error-table = Les commentaires sont momentanément inaccessibles. Réessayez plus tard.
error-overloaded = Trop de demandes sont en cours. Réessayez plus tard.
error-timed-out = La demande a pris trop de temps. Une écriture a peut-être eu lieu. Réessayez plus tard.
error-internal = Le serveur a commis une erreur ; elle est consignée.
verified = Vérifié
reply-of = Réponse :
the-shop = la boutique
