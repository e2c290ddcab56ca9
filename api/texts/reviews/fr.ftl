# A preset: the messages of ../fr.ftl with reviews in place of comments. A site chooses it by its file messages/preset.

comments = { $count ->
    [one] { $count } avis
   *[other] { $count } avis
}
comments-noun = { $count ->
    [one] avis
   *[other] avis
}
comments-on = Avis sur
title-comments = Avis sur { $name }
title-no-comments = Aucun avis sur { $name }
some-comments = Avis
the-newest-comments = Les avis les plus récents
the-oldest-comments = Les avis les plus anciens
description-rated = Note moyenne de { $average } sur 5, d’après { $count ->
    [one] { $count } avis
   *[other] { $count } avis
}.
description-range = Avis { $from } à { $to }, { $order } : { $days }.
description-range-of = Avis { $from } à { $to } sur { $total }, { $order } : { $days }.
description-range-from-oldest = Avis { $from } à { $to } depuis le plus ancien, { $order } : { $days }.
average-out-of-5 = sur 5, d’après { $count ->
    [one] { $count } avis
   *[other] { $count } avis
}
average-from = d’après { $count ->
    [one] { $count } avis
   *[other] { $count } avis
}
feed-of-comments = Flux de ces avis
degraded = Les totaux et les numéros de page manquent pour le moment. On peut toujours avancer page par page ; les liens vers un avis fonctionneront bientôt à nouveau.
no-match = Aucun avis sur ce produit ne correspond à ces filtres.
nobody = Personne n’a encore donné son avis sur ce produit.
all-comments = Tous les avis sur ce produit
write = Écrire un avis
comment-of = Avis de
link-to-comment = lien vers cet avis du
all-positive = Tous les avis positifs
all-critical = Tous les avis critiques
pages-before-comments = Pages, avant les avis
title-most-commented = Produits avec le plus d’avis
words-most-commented = avec le plus d’avis
description-products = Produits d’après leurs avis : { $list }.
no-products = Aucun produit n’a encore d’avis.
title-start = Pagemark : avis sur des produits
about = Avis sur des produits, avec des filtres et des numéros de page qui sont de vraies adresses.
all-products = Tous les produits qui ont des avis
help-comments = Tous les avis, du plus récent au plus ancien.
help-comment = La page qui montre un avis donné.
help-json-products = Les produits qui ont des avis.
help-json-stats = Le nombre d’avis, par note et par langue.
help-json-post = Un nouvel avis, avec Authorization: Bearer TOKEN.
page-1-oldest = Page 1, avec les avis les plus anciens
meanwhile-others = Aucun avis n’a été trouvé ici, mais il y en a peut-être : impossible de le vérifier pour le moment. Les pages qui ont des avis restent lisibles.
part-id = l’avis
error-no-comment = Cet avis n’existe pas.
error-past-all-numbers = La page { $page } est au-delà de la fin : aucune page n’a de numéro ; tous les avis sont sur la page sans numéro.
error-past-the-archive = La page { $page } est au-delà de la fin : la page numérotée la plus récente est la { $last } ; les avis plus récents sont sur la page sans numéro.
error-not-yet-listed = Des avis de cette liste sont en train d’être rangés dans ses pages, et peut-être dans celle-ci. Réessayez dans un instant.
error-table = Les avis sont momentanément inaccessibles. Réessayez plus tard.
