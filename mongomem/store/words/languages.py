"""Stop words by language: words that hold a sentence together, and words that ask.

A question is searched as it is asked, so its "what" and "when" are no part of what it is about.
Languages that are not here have none. Apostrophes separate words, so that parts of contractions
stand alone: "don" and "t", "l" and "qu".
"""

from __future__ import annotations

STOP_WORDS = {
    "english": """
        a an and are as at be but by for if in into is it no not of on or such that the their then
        there these they this to was will with
        i me my we our you your he him his she her its them what which who whom whose when where
        why how am were been being have has had having do does did doing would should could can
        ought about against between through during before after above below from up down out off
        over under again further once here all any both each few more most other some nor only own
        same so than too very s t just don now d ll m re ve y
    """,
    "german": """
        der die das den dem des ein eine einen einem einer eines und oder aber nicht kein keine
        ich du er sie es wir ihr mich mir dich dir ihn ihm uns euch mein meine dein deine sein seine
        unser unsere ist sind war waren bin bist hat habe haben hatte wird werden zu zum zur im in
        an am auf aus bei mit nach von vom vor für über unter um durch als wie auch noch nur schon
        sehr so dass daß wenn weil denn dann da hier dort doch ja nein man sich
        was wer wen wem wessen wann wo wohin woher warum wieso welche welcher welches welchen
    """,
    "french": """
        le la les un une des du de au aux et ou mais ne pas ni que qui dont où je tu il elle on nous
        vous ils elles me te se moi toi lui leur leurs mon ma mes ton ta tes son sa ses notre nos
        votre vos ce cet cette ces est sont était étaient suis es êtes été être ai as a avons avez
        ont avait avoir dans en par pour sur sous avec sans chez entre vers si plus très aussi y
        c d j l m n s t qu quoi quand comment pourquoi combien quel quelle quels quelles
    """,
    "spanish": """
        el la los las lo un una unos unas y e o u pero no ni de del a al en con por para sin sobre
        entre hasta desde yo tú él ella nosotros ellos ellas usted ustedes me te se nos le les mi
        mis tu tus su sus nuestro nuestra este esta estos estas ese esa eso es son era eran fue soy
        eres ser está están estaba estoy he has ha hemos han había hay que como más muy ya si sí
        también qué quién quiénes cuándo cuando dónde donde cómo cuál cuáles cuánto cuánta
    """,
    "italian": """
        il lo la i gli le un uno una e ed o ma non né di del dello della dei degli delle a ad al
        allo alla ai agli alle da dal dalla in nel nella nei nelle su sul sulla con per tra fra io
        tu lui lei noi voi loro mi ti si ci vi mio mia miei mie tuo tua suo sua nostro questo questa
        quello quella è sono era erano sei siamo ho hai ha abbiamo hanno aveva se più molto anche
        l d c dell all nell sull dall che chi cosa cos quando dove come perché quale quali quanto
    """,
    "portuguese": """
        o a os as um uma uns umas e ou mas não nem de do da dos das em no na nos nas ao à aos às por
        pelo pela para com sem sobre entre até desde eu tu ele ela nós vós eles elas você vocês me
        te se lhe meu minha teu tua seu sua seus suas nosso nossa este esta esse essa isso é são era
        eram foi sou ser está estão estava estou tem têm tinha há mais muito já também
        que quem quando onde como porquê porque qual quais quanto quanta
    """,
    "dutch": """
        de het een en of maar niet geen ik jij je hij zij ze wij we jullie u mij me jou hem haar ons
        hun mijn jouw zijn onze dit dat deze die is was waren ben bent heb heeft hebben had wordt
        worden te in op aan bij met van voor naar uit over onder om door tot als dan ook nog al er
        hier daar zo zeer zich wat wie wanneer waar waarom hoe welke welk
    """,
    "swedish": """
        en ett den det de och eller men inte jag du han hon vi ni mig dig honom henne oss er dem min
        mitt mina din ditt dina sin sitt sina hans hennes vår vårt är var vara varit har hade blir
        att i på av för med till från om under över vid som så också där här denna detta dessa sig
        ju än vad vem vems när varför hur vilken vilket vilka
    """,
    "danish": """
        en et den det de og eller men ikke jeg du han hun vi i mig dig ham hende os jer dem min mit
        mine din dit dine sin sit sine hans hendes vores er var være været har havde bliver at på af
        for med til fra om under over ved som så også der her denne dette disse sig end
        hvad hvem hvis hvornår hvor hvorfor hvordan hvilken hvilket hvilke
    """,
    "norwegian": """
        en ei et den det de og eller men ikke jeg du han hun vi dere meg deg ham henne oss dem min
        mi mitt mine din ditt dine sin sitt sine hans hennes vår vårt er var være vært har hadde
        blir at å i på av for med til fra om under over ved som så også der her denne dette disse
        seg enn hva hvem hvis når hvor hvorfor hvordan hvilken hvilket hvilke
    """,
    "finnish": """
        ja tai mutta ei en et emme ette eivät minä sinä hän me te he minun sinun hänen meidän teidän
        heidän minut sinut minulla sinulla hänellä tämä tuo se nämä nuo ne sen tämän on ovat oli
        olivat olen olet olemme olla ollut että jos kun koska niin kuin myös vain jo vielä siis
        mikä mitä missä mistä mihin milloin miksi miten kuka ketä kenen kuinka millainen
    """,
    "russian": """
        и или но а не ни я ты он она оно мы вы они меня тебя его её ее нас вас их мне тебе ему ей
        нам вам им мой моя моё мои твой твоя твои наш ваш свой этот эта это эти тот та то те быть
        был была было были есть в во на с со к ко о об от до из у за по под над при для без бы же ли
        да нет так как уже еще ещё тоже только
        что кто кого кому чей когда где куда откуда почему зачем какой какая какие сколько
    """,
    "polish": """
        i oraz lub albo ale nie ja ty on ona ono my wy oni one mnie mi ciebie ci go jego jej nas was
        ich im mój moja moje twój twoja swój nasz wasz ten ta to te tym tego jest są był była
        było byli jestem być w we na z ze do od o u za po pod nad przy dla bez przez się już jeszcze
        też tylko tak że żeby jak co kto kogo komu czyj kiedy gdzie dokąd skąd dlaczego czemu jaki
        jaka jakie który która które ile czy
    """,
    "turkish": """
        ve veya ya ama fakat değil ben sen o biz siz onlar beni seni onu bizi sizi bana sana ona
        benim senin onun bizim sizin onların bu şu bunu şunu bunlar bir de da ki mi mı mu mü için
        ile gibi kadar daha çok en her hiç var yok idi ise çünkü hem sonra önce
        ne kim kimin kime neden niçin niye nasıl nerede nereye nereden hangi kaç
    """,
    "greek": """
        ο η το οι τα του της των τον την τους τις ένας μία μια ένα και ή αλλά δεν μη μην να θα εγώ
        εσύ αυτός αυτή αυτό εμείς εσείς αυτοί με σε μου σου μας σας είναι ήταν είμαι είσαι έχω έχει
        είχε στο στη στην στον στα στις από για προς χωρίς πριν μετά αν όταν πιο πολύ επίσης
        που πως τι ποιος ποια ποιο ποιοι πότε πού γιατί πώς πόσο πόσα
    """,
    "arabic": """
        و أو ثم لكن لا لم لن ليس ما أنا أنت هو هي نحن أنتم هم هن هذا هذه ذلك تلك هؤلاء الذي التي
        الذين في من إلى على عن مع بين بعد قبل عند حتى منذ كان كانت يكون قد إن أن كل بعض غير أيضا كما
        إذا لي لك له لها لنا ماذا متى أين كيف لماذا هل أي كم لمن
    """,
    "hindi": """
        का की के को से में पर और या लेकिन नहीं न मैं तू तुम आप वह यह वे ये हम मुझे तुम्हें उसे उन्हें हमें मेरा
        मेरी मेरे तुम्हारा आपका उसका उसकी उसके हमारा है हैं था थी थे हूँ हो ने तक भी ही तो कि जो एक इस उस इन उन
        लिए साथ
        क्या कौन कब कहाँ कहां क्यों कैसे कैसा कौनसा कितना कितने किस किसका किसने
    """,
}
